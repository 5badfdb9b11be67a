// Loads and stores of every space, type and vector; read-modify-write; constants, parameters and
// generic addresses.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

constexpr uint32_t kMemoryThreads = 64;

struct MemoryElement {
  const char *load, *store;
  uint32_t bytes;
  bool is_signed;
};
constexpr MemoryElement kMemoryElements[] = {{"u8", "b8", 1, false},   {"s8", "b8", 1, true},
                                             {"b8", "u8", 1, false},   {"u16", "b16", 2, false},
                                             {"s16", "s16", 2, true},  {"u32", "u32", 4, false},
                                             {"s32", "b32", 4, false}, {"f32", "f32", 4, false},
                                             {"u64", "u64", 8, false}, {"f64", "f64", 8, false}};

std::string number(uint32_t v) { return std::to_string(v); }
char kind_of(const MemoryElement &t) { return t.bytes == 8 ? 'l' : 'r'; }

std::string registers(const MemoryElement &t, char letter, uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(1, letter) + kind_of(t) + number(i);
  return count > 1 ? "{" + text + "}" : text;
}

/// Elements of a thread from the input to `space`, back through it, and each to eight bytes of the
/// output as the load has extended it to its register.
std::string copy_body(const std::string &space, const MemoryElement &t, uint32_t count) {
  const std::string vector = count > 1 ? ".v" + number(count) : "";
  const std::string bytes = number(t.bytes * count);
  const std::string place = space == "generic" ? "" : "." + space;
  std::string s = ".reg .b32 %w, %vr<4>, %xr<4>;\n.reg .b64 %a, %m, %d, %vl<4>, %xl<4>;\n"
                  ".shared .align 32 .b8 m[2048];\n.local .align 32 .b8 l[64];\n"
                  "mad.wide.u32 %d, %i, " +
                  number(8 * count) + ", %out;\nmad.wide.u32 %a, %i, " + bytes + ", %in;\n";
  if (space == "shared" || space == "generic")
    s += "mov.u32 %w, m;\nmad.lo.u32 %w, %i, " + bytes + ", %w;\ncvt.u64.u32 %m, %w;\n";
  if (space == "generic")
    s += "cvta.shared.u64 %m, %m;\n";
  if (space == "local")
    s += "mov.u64 %m, l;\n";
  if (space == "global") // beside the results, behind the input
    s += "mad.wide.u32 %m, %i, " + bytes + ", %in;\nadd.u64 %m, %m, 2048;\n";
  s += "ld.global" + vector + "." + t.store + " " + registers(t, 'v', count) + ", [%a];\n";
  s += "st" + place + vector + "." + t.store + " [%m], " + registers(t, 'v', count) + ";\n";
  s += "ld" + place + vector + "." + t.load + " " + registers(t, 'x', count) + ", [%m];\n";
  for (uint32_t i = 0; i < count; ++i) {
    std::string x = std::string("%x") + kind_of(t) + number(i);
    if (t.bytes < 8)
      s += std::string("cvt.") + (t.is_signed ? "s64.s32" : "u64.u32") + " %xl" + number(i) + ", " +
           x + ";\n";
    s += "st.global.b64 [%d+" + number(8 * i) + "], %xl" + number(i) + ";\n";
  }
  return s;
}

void add_copies(OpcodeCases &cases) {
  Random random(5);
  std::vector<uint32_t> input(1024);
  for (uint32_t &word : input)
    word = uint32_t(random());
  for (const char *space : {"global", "shared", "local", "generic"})
    for (const MemoryElement &t : kMemoryElements)
      for (uint32_t count : {1u, 2u, 4u}) {
        const bool wide = t.bytes * count == 32;
        if (wide && std::string(space) != "global")
          continue;
        Program &p =
            cases.program(std::string("ld.") + space + (count > 1 ? ".v" + number(count) : "") +
                              "." + t.load + " of st." + t.store,
                          "Data Movement and Conversion Instructions: ld, st",
                          "narrow values are extended to the register by the type of the load");
        if (wide) // 256 bits came late, and to global memory alone
          p.target = {100, "8.8"};
        p.body = copy_body(space, t, count);
        p.threads = kMemoryThreads;
        p.input = input;
        for (uint32_t i = 0; i < kMemoryThreads * count; ++i) {
          uint32_t first = i * t.bytes;
          Bits value = 0;
          for (uint32_t k = 0; k < t.bytes; ++k)
            value |= Bits(input[(first + k) / 4] >> (8 * ((first + k) % 4)) & 255) << (8 * k);
          if (t.is_signed)
            value = Bits(integer(value, int(8 * t.bytes), true));
          p.expected.push_back(uint32_t(value));
          p.expected.push_back(uint32_t(value >> 32));
        }
      }
}

struct Atom {
  std::string name; // with its type
  uint32_t bytes;
  std::function<Bits(Bits old, Bits a, Bits b)> next;
  bool has_second = false;
  const Format *format =
      nullptr; // of what is added; operands are small integers, so sums are exact
  int compute = 75;
};

void add_integer_atoms(std::vector<Atom> &atoms) {
  for (const char *t : {"u32", "s32", "u64", "s64"}) {
    const int bits = t[1] == '3' ? 32 : 64;
    const bool is_signed = *t == 's';
    auto of = [=](Bits v) { return integer(v, bits, is_signed); };
    const uint32_t bytes = uint32_t(bits / 8);
    atoms.push_back({std::string("min.") + t, bytes,
                     [=](Bits o, Bits a, Bits) { return of(a) < of(o) ? a : o; }});
    atoms.push_back({std::string("max.") + t, bytes,
                     [=](Bits o, Bits a, Bits) { return of(a) > of(o) ? a : o; }});
    if (std::string(t) != "s64") // add has no .s64
      atoms.push_back({std::string("add.") + t, bytes, [](Bits o, Bits a, Bits) { return o + a; }});
  }
  for (const char *width : {"32", "64"}) {
    const uint32_t bytes = *width == '3' ? 4 : 8;
    const std::string type = std::string(".b") + width;
    atoms.push_back({"and" + type, bytes, [](Bits o, Bits a, Bits) { return o & a; }});
    atoms.push_back({"or" + type, bytes, [](Bits o, Bits a, Bits) { return o | a; }});
    atoms.push_back({"xor" + type, bytes, [](Bits o, Bits a, Bits) { return o ^ a; }});
    atoms.push_back({"exch" + type, bytes, [](Bits, Bits a, Bits) { return a; }});
    atoms.push_back(
        {"cas" + type, bytes, [](Bits o, Bits a, Bits b) { return o == a ? b : o; }, true});
  }
  atoms.push_back({"cas.b16", 2, [](Bits o, Bits a, Bits b) { return o == a ? b : o; }, true});
  atoms.push_back({"inc.u32", 4, [](Bits o, Bits a, Bits) { return o >= a ? 0 : o + 1; }});
  atoms.push_back({"dec.u32", 4, [](Bits o, Bits a, Bits) { return o == 0 || o > a ? a : o - 1; }});
}

void add_float_atoms(std::vector<Atom> &atoms) {
  auto plus = [](const Format *t) {
    return [t](Bits o, Bits a, Bits) { return encode(*t, sum(decode(*t, o), decode(*t, a))); };
  };
  auto pair = [plus](const Format *t) {
    return [one = plus(t)](Bits o, Bits a, Bits) {
      return one(o & 0xffff, a & 0xffff, 0) | one(o >> 16 & 0xffff, a >> 16 & 0xffff, 0) << 16;
    };
  };
  atoms.push_back({"add.f32", 4, plus(&kF32), false, &kF32});
  atoms.push_back({"add.f64", 8, plus(&kF64), false, &kF64});
  atoms.push_back({"add.noftz.f16", 2, plus(&kF16), false, &kF16});
  atoms.push_back({"add.noftz.f16x2", 4, pair(&kF16), false, &kF16});
  atoms.push_back({"add.noftz.bf16", 2, plus(&kBf16), false, &kBf16, 90});
  atoms.push_back({"add.noftz.bf16x2", 4, pair(&kBf16), false, &kBf16, 90});
}

/// Where memory lies, and by what kind of address it is named.
struct AtomPlace {
  const char *name, *suffix;
  bool in_shared;
};
constexpr AtomPlace kAtomPlaces[] = {{"global", ".global", false},
                                     {"shared", ".shared", true},
                                     {"generic", "", false},
                                     {"generic to shared", "", true}};

/// Input: 16 bytes of operands a thread, then 8 bytes of memory a thread. Output: 8 bytes of the
/// old value and 8 of the memory afterwards.
std::string atom_body(const Atom &atom, const AtomPlace &place) {
  const std::string k(1, atom.bytes == 8 ? 'l' : atom.bytes == 4 ? 'r' : 'h');
  const std::string type = ".b" + number(8 * atom.bytes);
  std::string s =
      ".reg .b64 %a, %m, %d, %t, %la, %lb, %ld;\n.reg .b32 %w, %ra, %rb, %rd;\n"
      ".reg .b16 %ha, %hb, %hd;\n.shared .align 8 .b8 m[512];\n"
      "mad.wide.u32 %a, %i, 16, %in;\nmad.wide.u32 %m, %i, 8, %in;\n"
      "add.u64 %m, %m, 1024;\nmad.wide.u32 %d, %i, 16, %out;\nld.global.b64 %t, [%m];\n";
  s += "ld.global" + type + " %" + k + "a, [%a];\nld.global" + type + " %" + k + "b, [%a+8];\n";
  if (place.in_shared)
    s +=
        "mov.u32 %w, m;\nmad.lo.u32 %w, %i, 8, %w;\ncvt.u64.u32 %m, %w;\nst.shared.b64 [%m], %t;\n";
  if (place.in_shared && !*place.suffix)
    s += "cvta.shared.u64 %m, %m;\n";
  s += std::string("atom") + place.suffix + "." + atom.name + " %" + k + "d, [%m], %" + k + "a" +
       (atom.has_second ? ", %" + k + "b" : "") + ";\n";
  s += "st.global" + type + " [%d], %" + k + "d;\n";
  return s +
         (place.in_shared && *place.suffix ? "ld.shared.b64 %t, [%m];\n" : "ld.b64 %t, [%m];\n") +
         "st.global.b64 [%d+8], %t;\n";
}

/// Values of an atomic operation: equal ones often, so that comparisons succeed.
Bits atom_value(Random &random, const Atom &atom) {
  if (!atom.format)
    return random() % 3 ? random() % 4 : random();
  Bits v = encode(*atom.format, Real(int(random() % 64) - 32));
  return atom.bytes == 4 && atom.format->bits == 16 ? v | v << 16 : v;
}

/// A case of each thread's operands a and b and memory m, as v = {a, b, m}.
void add_atom(OpcodeCases &cases, const Atom &atom, const AtomPlace &place, const std::string &name,
              const char *rule, const std::function<Bits(Random &)> &value) {
  Program &p =
      cases.program(name, "Parallel Synchronization and Communication Instructions: atom", rule);
  p.body = atom_body(atom, place);
  p.threads = kMemoryThreads;
  p.target.compute = atom.compute;
  Random random(3);
  p.input.resize(kMemoryThreads * 6);
  const Bits mask = atom.bytes == 8 ? ~Bits(0) : (Bits(1) << (8 * atom.bytes)) - 1;
  for (uint32_t i = 0; i < kMemoryThreads; ++i) {
    Bits v[3];
    for (Bits &one : v)
      one = value(random);
    for (uint32_t k = 0; k < 2; ++k) {
      p.input[i * 4 + k] = uint32_t(v[0] >> (32 * k));
      p.input[i * 4 + 2 + k] = uint32_t(v[1] >> (32 * k));
      p.input[kMemoryThreads * 4 + i * 2 + k] = uint32_t(v[2] >> (32 * k));
    }
    Bits old = v[2] & mask;
    Bits stored = (v[2] & ~mask) | (atom.next(old, v[0] & mask, v[1] & mask) & mask);
    for (Bits word : {old, stored}) {
      p.expected.push_back(uint32_t(word));
      p.expected.push_back(uint32_t(word >> 32));
    }
  }
}

void add_atoms(OpcodeCases &cases) {
  std::vector<Atom> atoms;
  add_integer_atoms(atoms);
  add_float_atoms(atoms);
  for (const Atom &atom : atoms)
    for (const AtomPlace &place : kAtomPlaces)
      add_atom(cases, atom, place, std::string("atom.") + place.name + "." + atom.name,
               "the old value is returned and the new one stored in its place",
               [&](Random &random) { return atom_value(random, atom); });
}

/// Sums that are subnormal or have a subnormal operand.
void add_subnormal_atoms(OpcodeCases &cases) {
  struct Row {
    const char *name;
    uint32_t bytes;
    const Format *format;
    bool flushes_in_global;
    int compute;
  };
  for (const Row &row :
       {Row{"add.f32", 4, &kF32, true, 75}, Row{"add.noftz.f16", 2, &kF16, false, 75},
        Row{"add.noftz.bf16", 2, &kBf16, false, 90}})
    for (const AtomPlace &place : kAtomPlaces) {
      const Format &t = *row.format;
      const bool flushes = row.flushes_in_global && !place.in_shared;
      auto next = [&t, flushes](Bits o, Bits a, Bits) {
        auto kept = [&](Bits v) { return flushes ? t.flushed(v) : v; };
        return kept(encode(t, sum(decode(t, kept(o)), decode(t, kept(a)))));
      };
      const Atom atom{row.name, row.bytes, next, false, row.format, row.compute};
      // Up to four times the smallest normal number, of either sign.
      auto value = [&t](Random &random) {
        return random() % (Bits(3) << t.mantissa) | (random() % 2 ? t.sign() : 0);
      };
      add_atom(
          cases, atom, place, std::string("atom.") + place.name + "." + row.name + " of subnormals",
          "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving "
          "zero; on shared memory it does not, nor does .noftz",
          value);
    }
}

/// Base plus a shifted index, which compilers emit in two or three instructions.
void add_indices(OpcodeCases &cases) {
  const Citation cite{"Logic and Shift Instructions: shl", "sums and shifts of addresses wrap"};
  cases.instruction(
      "{ .reg .b64 s; shl.b64 s, %la, 3; add.s64 %ld, %lb, s; }", "lll",
      [](Bits a, Bits b, Bits, Bits) { return (a << 3) + b; }, cite);
  cases.instruction(
      "{ .reg .b64 s, t; add.s64 t, %la, %lb; shl.b64 s, t, 2; add.s64 %ld, %lc, s; }", "llll",
      [](Bits a, Bits b, Bits c, Bits) { return ((a + b) << 2) + c; }, cite);
}

/// Loads of 32 bits into registers of 64, and the address arithmetic of arrays.
void add_addresses(OpcodeCases &cases) {
  Program &p = cases.program(
      "ld into wider registers, addresses of arrays",
      "Data Movement and Conversion Instructions: ld",
      "the destination may be wider than the type; it is extended by the type's sign");
  p.body = ".reg .b32 %v, %k;\n.reg .b64 %a, %d, %t, %s, %u;\nmul.wide.u32 %t, %i, 1;\n"
           "shl.b64 %s, %t, 2;\nadd.s64 %a, %in, %s;\nld.global.u32 %u, [%a];\n"
           "ld.global.s32 %s, [%a];\nshl.b64 %d, %t, 4;\nadd.s64 %d, %out, %d;\n"
           "st.global.v2.u64 [%d], {%u, %s};\nadd.s64 %t, %t, 1;\nshl.b64 %s, %t, 2;\n"
           "add.s64 %a, %in, %s;\nld.global.u32 %v, [%a];\nshr.u64 %t, %in, 0;\n"
           "mul.wide.u32 %s, %i, 1;\nadd.s64 %s, %s, 2;\nshl.b64 %s, %s, 2;\nadd.s64 %s, %s, %in;\n"
           "ld.global.u32 %k, [%s];\nadd.u32 %v, %v, %k;\n"
           "st.global.u32 [%d+8], %v;";
  for (uint32_t i = 0; i < 40; ++i)
    p.input.push_back(i * 0x13579bdf);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t v = p.input[i];
    for (uint32_t word : {v, 0u, p.input[i + 1] + p.input[i + 2], v >> 31 ? ~0u : 0u})
      p.expected.push_back(word);
  }
}

/// Every thread of several blocks on one word: nothing is lost.
void add_contended(OpcodeCases &cases) {
  Program &p = cases.program("atom.global.add.u32 and red.global.max.u32 of 512 threads",
                             "Parallel Synchronization and Communication Instructions: atom, red",
                             "each operation is performed without interference from others");
  p.body = ".reg .b32 %x, %b;\nmov.u32 %b, %ctaid.x;\nmad.lo.u32 %x, %b, 128, %i;\n"
           "add.u32 %x, %x, 1;\natom.global.add.u32 %b, [%out], %x;\n"
           "red.global.max.u32 [%out+4], %x;\nred.global.or.b32 [%out+8], %x;";
  p.threads = 128;
  p.blocks = 4;
  p.expected = {512 * 513 / 2, 512, 1023};
}

void add_spaces(OpcodeCases &cases) {
  Program &p = cases.program("isspacep, cvta, ld.const, module variables",
                             "Data Movement and Conversion Instructions: isspacep, cvta",
                             "whether a generic address falls within the space");
  p.outside = ".const .align 4 .u32 table[4] = {11, 22, 33, 44};\n"
              ".global .align 4 .u32 stored = 77;\n";
  p.body = ".local .align 4 .b8 own[16];\n.shared .align 4 .b8 m[16];\n.reg .b64 %l<4>;\n"
           ".reg .b32 %r<4>;\n.reg .pred %p<4>;\nmov.u64 %l0, m;\ncvta.shared.u64 %l0, %l0;\n"
           "mov.u64 %l1, own;\ncvta.local.u64 %l1, %l1;\nisspacep.shared %p0, %l0;\n"
           "isspacep.global %p1, %l0;\nisspacep.local %p2, %l1;\nisspacep.global %p3, %out;\n"
           "selp.u32 %r0, 1, 0, %p0;\nselp.u32 %r1, 2, 0, %p1;\nadd.u32 %r0, %r0, %r1;\n"
           "selp.u32 %r1, 4, 0, %p2;\nadd.u32 %r0, %r0, %r1;\nselp.u32 %r1, 8, 0, %p3;\n"
           "add.u32 %r0, %r0, %r1;\nmad.wide.u32 %l2, %i, 12, %out;\nst.global.u32 [%l2], %r0;\n"
           "and.b32 %r1, %i, 3;\nmov.u64 %l3, table;\nmad.wide.u32 %l3, %r1, 4, %l3;\n"
           "ld.const.u32 %r2, [%l3];\nst.global.u32 [%l2+4], %r2;\nld.global.u32 %r3, [stored];\n"
           "st.global.u32 [%l2+8], %r3;";
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t word : {1u + 4 + 8, 11 * (i % 4 + 1), 77u})
      p.expected.push_back(word);
}

/// Copies that land at the wait that covers their group; a short source is filled with zeros.
void add_async_copies(OpcodeCases &cases) {
  Program &p =
      cases.program("cp.async, commit_group, wait_group, wait_all",
                    "Data Movement and Conversion Instructions: cp.async",
                    "wait_group N waits until at most N of the most recent groups are pending");
  p.target.compute = 80;
  p.body = ".shared .align 16 .b8 m[2048];\n.reg .b32 %s, %v, %n;\n.reg .b64 %a, %d;\n"
           "mov.u32 %s, m;\nmad.lo.u32 %s, %i, 48, %s;\nmad.wide.u32 %a, %i, 32, %in;\n"
           "mad.wide.u32 %d, %i, 20, %out;\n"
           "cp.async.cg.shared.global [%s], [%a], 16;\ncp.async.commit_group;\nmov.u32 %n, 8;\n"
           "cp.async.ca.shared.global [%s+16], [%a+16], 16, %n;\ncp.async.commit_group;\n"
           "cp.async.ca.shared.global [%s+32], [%a+4], 4;\n"
           "cp.async.wait_group 1;\nld.shared.u32 %v, [%s+12];\nst.global.u32 [%d], %v;\n"
           "cp.async.wait_group 0;\nld.shared.u32 %v, [%s+20];\nst.global.u32 [%d+4], %v;\n"
           "ld.shared.u32 %v, [%s+24];\nst.global.u32 [%d+8], %v;\nld.shared.u32 %v, [%s+28];\n"
           "st.global.u32 [%d+12], %v;\ncp.async.wait_all;\nld.shared.u32 %v, [%s+32];\n"
           "st.global.u32 [%d+16], %v;";
  for (uint32_t i = 0; i < 32 * 8; ++i)
    p.input.push_back(1000 + i);
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t word : {1000 + i * 8 + 3, 1000 + i * 8 + 5, 0u, 0u, 1000 + i * 8 + 1})
      p.expected.push_back(word);
}

} // namespace

void add_memory_cases(OpcodeCases &cases) {
  add_copies(cases);
  add_atoms(cases);
  add_subnormal_atoms(cases);
  add_contended(cases);
  add_indices(cases);
  add_addresses(cases);
  add_spaces(cases);
  add_async_copies(cases);
}

} // namespace cugrt::conformance
