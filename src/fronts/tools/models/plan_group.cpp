// Plans of groups; see plan_group.h.
#include "plan_group.h"

#include "npy.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <sstream>
#include <tuple>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

// The default costs of instances; see cugrt_costs.
constexpr uint64_t kNodeBytes = 10 << 10, kInstanceBytes = 16 << 10;
// Weights lie at multiples of it.
constexpr uint64_t kWeightAlignment = 256;

std::string line(const char *name, const char *word, const std::array<uint64_t, 7> &bytes) {
  std::array<char, 256> text{};
  std::snprintf(
      text.data(), text.size(), "%-20s %-10s %14llu %14llu %14llu %14llu %14llu %14llu %14llu\n",
      name, word, static_cast<unsigned long long>(bytes[0]),
      static_cast<unsigned long long>(bytes[1]), static_cast<unsigned long long>(bytes[2]),
      static_cast<unsigned long long>(bytes[3]), static_cast<unsigned long long>(bytes[4]),
      static_cast<unsigned long long>(bytes[5]), static_cast<unsigned long long>(bytes[6]));
  return text.data();
}

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// Largest arena by word; members without one have an entry each.
std::map<std::string, uint64_t> arenas_of(const GroupPlan &plan) {
  std::map<std::string, uint64_t> arenas;
  for (const GroupMember &member : plan.members) {
    uint64_t &arena = arenas[member.word.empty() ? "=" + member.name : member.word];
    arena = std::max(arena, member.arena);
  }
  return arenas;
}

} // namespace

uint64_t GroupPlan::arenas() const {
  uint64_t sum = 0;
  for (const auto &[word, bytes] : arenas_of(*this))
    sum += bytes;
  return sum;
}

uint64_t GroupPlan::total() const {
  uint64_t sum = arenas();
  for (const GroupMember &member : members)
    sum += member.total() - member.arena;
  return sum;
}

uint64_t GroupPlan::least() const {
  uint64_t weights = 0, largest = 0;
  for (const GroupMember &member : members) {
    weights += member.own_weights();
    largest = std::max(largest, member.own_weights() + member.bases);
  }
  return total() - weights + largest;
}

GroupMember group_member(const std::string &name, const std::string &report) {
  const Json whole = Json::parse(report);
  const Json plans = whole.contains("plans") ? whole.at("plans") : Json::array({whole});
  GroupMember member;
  member.name = name;
  for (const Json &plan : plans) { // of a pack: one for some targets each
    uint64_t arena = 0, results = 0, instances = 0;
    for (const Json &one : plan.at("arenas"))
      arena += one.at("bytes").get<uint64_t>();
    for (const Json &row : plan.at("memory")) { // of each function; they share their weights
      const bool of_weights = row.at("of_weights");
      uint64_t &weights = of_weights ? member.opening : member.weights;
      weights = std::max(weights, row.at("weight_bytes").get<uint64_t>());
      if (of_weights)
        continue;
      for (const auto &[weight, bytes] : row.at("given_weight_bytes").items())
        member.given[weight] = bytes.get<uint64_t>();
      for (const auto &[weight, made] : row.at("computed_weights").items())
        member.computed[weight] = {made.at("bytes"), made.at("recipe"), made.at("sources")};
      if (!row.at("result_bytes").is_null())
        results += row.at("result_bytes").get<uint64_t>();
      if (const auto bytes = row.at("longest_node_bytes").get<uint64_t>();
          bytes > member.longest_bytes) {
        member.longest = row.at("longest_node").get<std::string>();
        member.longest_bytes = bytes;
      }
    }
    for (const Json &function : plan.at("functions"))
      for (const Json &region : function.at("regions"))
        instances += kInstanceBytes + kNodeBytes * region.at("steps").size();
    member.arena = std::max(member.arena, arena);
    member.results = std::max(member.results, results);
    member.instances = std::max(member.instances, instances);
  }
  return member;
}

namespace {

/// A weight that a member has in memory of its own, and its identity.
struct OwnWeight {
  uint64_t bytes = 0;
  std::vector<std::string_view> parts; // its bytes; of a computed one a recipe, and its sources'
};

uint64_t aligned_sum(const std::map<std::string, OwnWeight> &weights) {
  uint64_t sum = 0;
  for (const auto &[name, weight] : weights)
    sum = (sum + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment + weight.bytes;
  return sum;
}

/// Keyed by name; weights whose bytes are known.
std::map<std::string, OwnWeight> own_weights(const GroupMember &member,
                                             const cugrt::Weights &weights) {
  std::map<std::string, std::string_view> tensors;
  for (size_t w = 0; w < weights.count(); ++w) {
    const char *name = nullptr;
    cugrt_tensor tensor{};
    cugrt::check(cugrt::api().weights_at(weights.get(), w, &name, &tensor));
    tensors[name] = {reinterpret_cast<const char *>(static_cast<uintptr_t>(tensor.address)),
                     tensor_bytes(tensor.dtype, {tensor.dims, tensor.dims + tensor.rank})};
  }
  std::map<std::string, OwnWeight> own;
  for (const auto &[name, bytes] : member.given)
    if (bytes != 0 && tensors.contains(name))
      own[name] = {bytes, {tensors.at(name).substr(0, bytes)}};
  for (const auto &[name, made] : member.computed) {
    OwnWeight weight{made.bytes, {made.recipe}};
    for (const std::string &source : made.sources)
      if (tensors.contains(source))
        weight.parts.push_back(tensors.at(source));
    if (made.bytes != 0 && weight.parts.size() == made.sources.size() + 1)
      own[name] = std::move(weight);
  }
  return own;
}

} // namespace

void share_weights(GroupPlan &plan, const std::vector<std::optional<cugrt::Weights>> &sets) {
  std::vector<std::map<std::string, OwnWeight>> own(plan.members.size());
  for (size_t i = 0; i < plan.members.size(); ++i) {
    GroupMember &member = plan.members[i];
    if (sets[i])
      own[i] = own_weights(member, *sets[i]);
    for (size_t k = 0; k < i; ++k) {
      std::vector<std::string> alike;
      std::map<std::string, uint64_t> read; // of the earlier one's
      for (const auto &[name, weight] : own[i])
        for (const auto &[other, there] : own[k])
          if (weight.parts == there.parts) {
            alike.push_back(name);
            read[other] = there.bytes;
            break;
          }
      uint64_t read_bytes = 0;
      for (const auto &[name, bytes] : read)
        read_bytes += bytes;
      if (read_bytes == 0 || read_bytes < aligned_sum(own[k]) / 2)
        continue;
      member.bases += plan.members[k].own_weights();
      for (const std::string &name : alike) {
        member.shared += own[i].at(name).bytes;
        own[i].erase(name);
      }
    }
  }
}

void set_word(GroupPlan &plan, const std::string &setting) {
  const size_t equal = setting.find('=');
  if (equal == std::string::npos || equal == 0)
    throw UserError("--word is NAME=MODEL,MODEL, not '" + setting + "'");
  std::istringstream names(setting.substr(equal + 1));
  for (std::string name; std::getline(names, name, ',');) {
    auto member = std::find_if(plan.members.begin(), plan.members.end(),
                               [&](const GroupMember &one) { return one.name == name; });
    if (member == plan.members.end())
      throw UserError("--word " + setting + ": there is no model '" + name + "'");
    if (!member->word.empty())
      throw UserError("--word " + setting + ": '" + name + "' has the word '" + member->word +
                      "' already");
    member->word = setting.substr(0, equal);
  }
}

std::string group_text(const GroupPlan &plan) {
  std::array<char, 256> head{};
  std::snprintf(head.data(), head.size(), "%-20s %-10s %14s %14s %14s %14s %14s %14s %14s\n",
                "model", "word", "weights", "arena", "results", "caches", "total", "instances",
                "opening");
  std::string text = head.data();
  uint64_t weights = 0, shared = 0, results = 0, caches = 0, instances = 0, opening = 0;
  for (const GroupMember &member : plan.members) {
    text += line(member.name.c_str(), member.word.c_str(),
                 {member.own_weights(), member.arena, member.results, member.caches, member.total(),
                  member.instances, member.opening});
    weights += member.own_weights();
    shared += member.shared;
    results += member.results;
    caches += member.caches;
    instances += member.instances;
    opening = std::max(opening, member.opening); // one after the other
  }
  text += line("group", "",
               {weights, plan.arenas(), results, caches, plan.total(), instances, opening});
  const auto longest = std::max_element(
      plan.members.begin(), plan.members.end(),
      [](const GroupMember &a, const GroupMember &b) { return a.longest_bytes < b.longest_bytes; });
  if (longest != plan.members.end() && longest->longest_bytes != 0)
    text += "Longest node: '" + longest->longest + "' of " + longest->name +
            ", which reads and writes " + std::to_string(longest->longest_bytes) +
            " bytes: an urgent run may have to wait for it.\n";
  if (shared != 0)
    text += "Weights of " + std::to_string(shared) +
            " bytes are not counted again: earlier models have them alike.\n";
  text += "With weights of one model at a time: " + std::to_string(plan.least()) + " bytes.\n";
  if (plan.budget)
    text += "The budget of " + std::to_string(*plan.budget) + " bytes " +
            (*plan.budget >= plan.total()   ? "holds all of it.\n"
             : *plan.budget >= plan.least() ? "is kept by weights that leave.\n"
                                            : "is too small.\n");
  return text;
}

std::string group_json(const GroupPlan &plan) {
  Json members = Json::array();
  for (const GroupMember &member : plan.members)
    members.push_back({{"name", member.name},
                       {"word", member.word.empty() ? Json() : Json(member.word)},
                       {"weight_bytes", member.weights},
                       {"shared_weight_bytes", member.shared},
                       {"arena_bytes", member.arena},
                       {"result_bytes", member.results},
                       {"cache_bytes", member.caches},
                       {"instance_bytes", member.instances},
                       {"opening_bytes", member.opening},
                       {"total_bytes", member.total()},
                       {"longest_node", member.longest_bytes ? Json(member.longest) : Json()},
                       {"longest_node_bytes", member.longest_bytes}});
  const Json all = {{"models", members},
                    {"arena_bytes", plan.arenas()},
                    {"total_bytes", plan.total()},
                    {"least_bytes", plan.least()},
                    {"budget_bytes", plan.budget ? Json(*plan.budget) : Json()}};
  return all.dump(1) + "\n";
}

std::string group_svg(const GroupPlan &plan) {
  constexpr double kLeft = 160, kWidth = 720, kRow = 28;
  const uint64_t end = std::max({plan.total(), plan.budget.value_or(0), uint64_t(1)});
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kLeft + kWidth + 20
      << "\" height=\"" << kRow * double(plan.members.size() + 1)
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n";
  uint64_t at = 0;
  double y = 4;
  auto bar = [&](const char *colour, const std::string &what, uint64_t begin, uint64_t bytes) {
    if (bytes != 0)
      svg << "<rect x=\"" << kLeft + kWidth * double(begin) / double(end) << "\" y=\"" << y
          << "\" width=\"" << kWidth * double(bytes) / double(end) << "\" height=\"20\" fill=\""
          << colour << "\"><title>" << what << ": " << bytes << " bytes</title></rect>\n";
  };
  std::map<std::string, uint64_t> places; // of arenas: the words' stand first
  const std::map<std::string, uint64_t> arenas = arenas_of(plan);
  for (const auto &[word, bytes] : arenas) {
    places[word] = at;
    at += bytes;
  }
  for (const GroupMember &member : plan.members) {
    svg << "<text x=\"4\" y=\"" << y + 15 << "\">" << escaped(member.name) << "</text>\n";
    bar("#4878a8", "arena", places[member.word.empty() ? "=" + member.name : member.word],
        member.arena);
    using Part = std::tuple<const char *, const char *, uint64_t>;
    const Part parts[] = {{"#c08040", "weights", member.own_weights()},
                          {"#68a868", "results", member.results},
                          {"#a05890", "caches", member.caches}};
    for (const auto &[colour, what, bytes] : parts) {
      bar(colour, what, at, bytes);
      at += bytes;
    }
    y += kRow;
  }
  if (plan.budget) {
    const double x = kLeft + kWidth * double(*plan.budget) / double(end);
    svg << "<line x1=\"" << x << "\" y1=\"0\" x2=\"" << x << "\" y2=\"" << y
        << "\" stroke=\"#c00000\"/>\n";
  }
  svg << "<text x=\"" << kLeft << "\" y=\"" << y + 15 << "\">" << plan.total() << " bytes"
      << (plan.budget ? ", budget " + std::to_string(*plan.budget) : std::string())
      << "</text>\n</svg>\n";
  return svg.str();
}

} // namespace tool
