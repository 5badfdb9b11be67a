"""Which programs a list of suites stands for, in which build folder, with which environment.

Meson's own description of the configured build (meson-info/) is the one manifest: what is
declared with test() is run, and an executable named after a suite that no test() declares is a
problem that is reported, so that no test is left out in silence.
"""
import dataclasses
import glob
import json
import os
import re
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUPPORT = os.path.join(ROOT, "tests", "support")

# By default all of these, those of the parts that exist.
PLAIN_SUITES = ("unit", "golden", "property", "differential", "fault", "oracle", "conformance",
                "foreign", "gpu")
# Their build folder; run_suites.py --build names another.
PLAIN_FOLDER = plain_folder = "build"
# Asked for by name: they take minutes, or what only they need.
NAMED_SUITES = ("nvrtc12", "ptxas", "sass", "browser", "python", "relax", "torch", "emulator")
# Sanitized: the build folder and the fast suites that run in it.
SANITIZED_SUITES = {
    "asan": ("build-asan", ("unit", "golden", "property", "differential")),
    "tsan": ("build-tsan", ("unit", "property", "differential")),
}
# Sanitizers slow programs down; their time limit grows with that, and cases tagged [large] or [long] are left
# out: what is watched is our own code, through which small sizes and few steps lead as well. So are hidden cases,
# which a filter would bring in: they are processes that other cases start. Cases tagged [fork] fork
# beside running threads: a sanitizer's allocator, unlike the C library's, may stay locked in the child.
SANITIZED_TIME_FACTOR = 4
SANITIZED_CASES = "~[.]~[large]~[long]~[fork]"
# Tags, which test() has beside its suite, of what is not run sanitized: kernels alone are the emulator's work and
# watched by its own tests, and another device or order leads through the same code.
UNSANITIZED_TAGS = {"kernels", "again"}
# ThreadSanitizer is told by one pattern which library is NVRTC, and may meet one such library only.
TSAN_CASES = SANITIZED_CASES + "~[two_nvrtc]"
FUZZ_SECONDS = 10
# Of the emulated driver's checks that a test's environment names, sanitized programs leave these out: they look at
# each access of each lane, and with a sanitizer watching they take ten times as long as the test itself. Their own
# code is watched in unit_emulator_driver and, below a model, in one program that keeps them.
CHECKS_OF_ACCESSES = ("race", "uninitialized")
SANITIZED_WITH_CHECKS = ("differential_state_order",)
# The emulated driver's checks are on in every program of the plain suites, and a finding fails the
# program that made it. Those that are left out, by program: the checks (or "all") and why.
WITHOUT_CHECKS = {
    "unit_check_emulate": ("all", "starts programs that are wrong and compares what is reported"),
    "foreign": ("all", "runs under cugrt emulate, which has all checks on and reports on stderr"),
    "unit_emulator_driver": ("leak,uninitialized", "its cases leave memory and modules to the "
                             "context's end, which then must free them, and use what is unwritten"),
    "golden_runtime": ("uninitialized", "shows how launches are put together, on unwritten weights"),
    "conformance": ("all", "names the checks of each script itself, and provokes their findings"),
    "differential_llm_batch": ("race,nodes,uninitialized", "a thousand steps, which take minutes with "
                               "them; differential_llm_api has the same graphs under them"),
    "differential_llm_loop": ("race,nodes,uninitialized", "as differential_llm_batch"),
    "differential_llm_loop_12.3": ("race,nodes,uninitialized", "as differential_llm_batch"),
    "differential_llm_loop_12.2": ("race,nodes,uninitialized", "as differential_llm_batch"),
    "differential_llm_draft": ("race,nodes,uninitialized", "as differential_llm_batch; differential_llm_draft_order has "
                               "the first and the last"),
    "differential_groups": ("race,uninitialized", "ten thousand runs; differential_groups_order has them"),
    "differential_groups_forgetful": ("all", "its driver forgets to wait, and they would tell"),
    "fault_emulator": ("leak", "as unit_emulator_driver, whose sessions it uses"),
    "fault_runtime": ("leak", "a call that is made to fail frees nothing"),
    "unit_driver": ("leak", "as fault_runtime, in its case of failing calls"),
    "fault_demo": ("leak", "as fault_runtime"),
    "unit_runtime": ("nodes", "plans are made by hand, some without the edges of a planner's"),
    "python": ("leak", "what is alive when an interpreter ends goes with the process; its own test counts"),
    **{name: ("leak", "as python") for name in ("relax_0.25", "relax_0.26", "relax_0.27", "relax_modules",
                                                "torch_0.25", "torch_0.26", "torch_0.27")},
}


class UnknownSuite(Exception):
    pass


@dataclasses.dataclass
class Program:
    """A test program, ready to run. `label` is unique in a run."""
    label: str
    command: list
    environment: dict
    folder: str
    timeout_s: float
    is_catch: bool
    checks: tuple = ()  # of the emulated driver: a finding of one of them is a failure
    priority: int = 0   # as test() says it: the higher, the sooner it starts
    tags: frozenset = frozenset()


def requests(arguments):
    """[(suite, options)] in the order asked for; every suite at most once."""
    known = PLAIN_SUITES + NAMED_SUITES + tuple(SANITIZED_SUITES) + ("fuzz",)
    asked = {}
    latest = None
    for argument in arguments:
        options = asked.get(latest)
        wants_value = bool(options) and options[-1].startswith("-") and "=" not in options[-1]
        if options is not None and (argument.startswith("-") or wants_value):
            options.append(argument)
        elif argument in known:
            latest = argument
            asked.setdefault(argument, [])
        else:
            raise UnknownSuite(f"no suite is called {argument}; suites: {' '.join(known)}")
    if not asked:
        return [(suite, None) for suite in PLAIN_SUITES]
    return list(asked.items())


def folder_of(suite):
    if suite == "fuzz":
        return "build-asan"
    return SANITIZED_SUITES[suite][0] if suite in SANITIZED_SUITES else plain_folder


def folders(suite_requests):
    return list(dict.fromkeys(folder_of(suite) for suite, _ in suite_requests))


def introspected(folder, what):
    with open(os.path.join(ROOT, folder, "meson-info", f"intro-{what}.json")) as file:
        return json.load(file)


def is_script(test):
    return any(part.endswith(".py") for part in test["cmd"])


def tags(test):
    """The suites that test() names, and its tags: without the project's name before each."""
    return {name.split(":")[-1] for name in test["suite"]}


def is_sanitized(test):
    """What a script looks at is the source or the plain build; once is enough."""
    return not is_script(test) and not tags(test) & UNSANITIZED_TAGS


def targets(folder, suite=None):
    """What is built in a sanitized folder: the programs that run there. Of a suite that is named: what its tests,
    scripts among them, depend on."""
    suites = {suite} if suite else {s for name, inner in SANITIZED_SUITES.values() if name == folder for s in inner}
    wanted = {target for test in introspected(folder, "tests") if suite or is_sanitized(test)
              for target in test["depends"] if suites & tags(test)}
    return sorted(os.path.relpath(target["filename"][0], os.path.join(ROOT, folder))
                  for target in introspected(folder, "targets")
                  if target["id"] in wanted or
                  not suite and target["name"].startswith("fuzz_") and target["type"] == "executable")


def undeclared(folder):
    """Executables that are named after a suite and that no test() runs."""
    declared = {os.path.realpath(test["cmd"][0]) for test in introspected(folder, "tests")}
    for target in introspected(folder, "targets"):
        suite = target["name"].split("_")[0]
        if target["type"] == "executable" and suite in PLAIN_SUITES and "_" in target["name"]:
            if os.path.realpath(target["filename"][0]) not in declared:
                yield f"{target['name']} is built in {folder}/, but no test() declares it"


def sanitizer_environment():
    supp = os.path.join(SUPPORT, "sanitizers")
    return {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:"
                        "allocator_may_return_null=1:check_initialization_order=1",
        # Without thread-local storage: clang 14's scan takes the heap block of a library that was
        # opened late, as the emulated driver is, for one of glibc 2.19 and reads wild addresses.
        "LSAN_OPTIONS": f"suppressions={supp}/lsan.supp:print_suppressions=0:use_tls=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        # Of modules that are drawn few lead through the same code, and each takes fifty times as long.
        "CUGRT_DIFFERENTIAL_SEEDS": "20",
        # Processes that compile are forked, and their compiler starts threads.
        "TSAN_OPTIONS": f"suppressions={supp}/tsan.supp:halt_on_error=0:second_deadlock_stack=1:"
                        "die_after_fork=0",
    }


def without_address_randomisation():
    """GCC 12's ThreadSanitizer cannot map its shadow where the kernel randomises 32 bits."""
    try:
        with open("/proc/sys/vm/mmap_rnd_bits") as file:
            bits = int(file.read())
    except (OSError, ValueError):
        return []
    setarch = shutil.which("setarch")
    return [setarch, "--addr-no-randomize"] if bits > 28 and setarch else []


def checks_on_request():
    """The emulated driver's checks that it must be asked for. The findings of the others are errors
    that the failing call returns as well, which tests provoke."""
    with open(os.path.join(ROOT, "src", "emulator", "driver", "findings.def")) as file:
        return tuple(re.findall(r"^CHECK\((\w+), on_request,", file.read(), re.MULTILINE))


def checks_of(program):
    """A program's tests with other loops of the emulated driver, NAME_v2 and NAME_v3, are treated as NAME."""
    left_out = WITHOUT_CHECKS.get(re.sub(r"_v\d$", "", program), ("",))[0].split(",")
    return tuple(check for check in checks_on_request()
                 if check not in left_out and "all" not in left_out)


def sanitized_environment(program, environment):
    """A test's own environment, in which a sanitized program is run."""
    checks = environment.get("CUGRT_EMU_CHECK", "").split(",")
    if checks == [""] or program in SANITIZED_WITH_CHECKS:
        return environment
    kept = [check for check in checks if check not in CHECKS_OF_ACCESSES]
    return {**environment, "CUGRT_EMU_CHECK": ",".join(kept)}


def declared_programs(request, suites, timeout_s):
    """The tests that Meson declares for these suites, with a request's folder and options. What they may take is
    `timeout_s`, or what Meson says where that is more."""
    suite_name, options = request
    folder = folder_of(suite_name)
    sanitized = suite_name in SANITIZED_SUITES
    # One for all folders: what a kernel compiles to does not depend on how cugrt was built.
    cache = os.path.join(ROOT, plain_folder, "test-cache")
    base = {"XDG_CACHE_HOME": cache, "CUGRT_TEST_BUILD": os.path.join(ROOT, folder)}
    if sanitized:
        base.update(sanitizer_environment())
        timeout_s *= SANITIZED_TIME_FACTOR
    for test in introspected(folder, "tests"):
        if not tags(test) & set(suites):
            continue
        if sanitized and not is_sanitized(test):
            continue
        is_catch = not is_script(test)
        command = list(test["cmd"])
        if suite_name == "tsan":
            command = without_address_randomisation() + command + [TSAN_CASES]
        elif sanitized:
            command.append(SANITIZED_CASES)
        if options and not is_catch:
            command += options
        label = f"{suite_name} {test['name']}" if sanitized else test["name"]
        # Sanitizers watch our own code, and slow it down enough.
        checks = () if sanitized else checks_of(test["name"])
        own = sanitized_environment(test["name"], test["env"]) if sanitized else test["env"]
        yield Program(label, command, {**base, **own}, test["workdir"] or ROOT,
                      max(timeout_s, test["timeout"]), is_catch, checks, test["priority"], frozenset(tags(test)))


def fuzz_seconds(options):
    """How long each fuzz target runs: --seconds N or --seconds=N."""
    words = " ".join(options or []).replace("=", " ").split()
    if not words:
        return FUZZ_SECONDS
    if len(words) != 2 or words[0] != "--seconds" or not words[1].isdecimal():
        raise UnknownSuite(f"suite fuzz takes --seconds N, not {' '.join(options)}")
    return int(words[1])


def fuzz_programs(options):
    """Each fuzz target, for a stretch of time, on what is committed and what earlier runs found. The
    seed is fixed, so that what one change is held to the next one is too; naming --seconds explores:
    each run takes another seed."""
    seconds = fuzz_seconds(options)
    seed = 0 if options else 1
    tests = os.path.join(ROOT, "build-asan", "tests", "fuzz")
    for target in sorted(glob.glob(os.path.join(tests, "fuzz_*"))):
        if not (os.path.isfile(target) and os.access(target, os.X_OK)):
            continue
        name = os.path.basename(target)
        corpora = [os.path.join(ROOT, "build-asan", "corpus", name),
                   os.path.join(ROOT, "tests", "fuzz", "corpus", re.sub("^fuzz_", "", name))]
        dictionary = os.path.join(ROOT, "tests", "fuzz", re.sub("^fuzz_", "", name) + ".dict")
        artifacts = os.path.join(ROOT, "build-asan", "artifacts", "")
        for folder in [corpora[0], artifacts]:
            os.makedirs(folder, exist_ok=True)
        command = [target, f"-max_total_time={seconds}", f"-seed={seed}",
                   "-timeout=20", "-rss_limit_mb=2560", "-malloc_limit_mb=1024",
                   "-error_exitcode=1",  # its own default, 77, means a skip here
                   f"-artifact_prefix={artifacts}{name}-", "-verbosity=0",
                   *([f"-dict={dictionary}"] if os.path.isfile(dictionary) else []),
                   *[corpus for corpus in corpora if os.path.isdir(corpus)]]
        yield Program(name, command, sanitizer_environment(), ROOT, seconds + 300.0, False)


def leave_out(found, name):
    """The programs without the tests of this name or tag, sanitized or not, or, for TEST[TAG], without its cases
    that Catch2 has under that tag; for [TAG] without those of every test."""
    test, _, cases = name.partition("[")
    left = []
    for program in found:
        if test and program.label.split(" ")[-1] != test and test not in program.tags:
            left.append(program)
        elif cases and program.is_catch:
            left.append(dataclasses.replace(program, command=program.command + [f"~[.]~[{cases}"]))
    return left


def longest_first(found):
    """By priority: what takes minutes and is begun last keeps one processor busy and leaves the others idle."""
    return sorted(found, key=lambda program: -program.priority)


def part_of(found, part):
    """Of N parts of the programs, "K/N", the one with number K."""
    number, _, count = part.partition("/")
    return found[int(number)::int(count)]


def programs(suite_requests, timeout_s, without=(), part="0/1"):
    """(programs, problems) of the requests, less what `without` names: tests, tags of tests, TEST[TAG] or [TAG]; of
    those of sanitized suites this part. A suite that was named and is empty is a problem, and so is a name that no
    test of the build has."""
    found, problems = [], []
    for suite, options in suite_requests:
        if suite == "fuzz":
            mine = list(fuzz_programs(options))
        else:
            inner = SANITIZED_SUITES[suite][1] if suite in SANITIZED_SUITES else (suite,)
            mine = list(declared_programs((suite, options), inner, timeout_s))
        if suite in SANITIZED_SUITES:
            mine = part_of(mine, part)
        if not mine and options is not None:
            problems.append(f"suite {suite} has no tests")
        found += mine
    tests = introspected(plain_folder, "tests") if without else ()
    declared = {test["name"] for test in tests}.union(*map(tags, tests))
    for name in without:
        found = leave_out(found, name)
        if name.partition("[")[0] not in {"", *declared}:
            problems.append(f"no test in {plain_folder}/ is called {name}")
    for folder in folders(suite_requests):
        if folder == plain_folder:
            problems += undeclared(folder)
    return longest_first(found), problems
