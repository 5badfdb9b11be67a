#!/usr/bin/env python3
"""Checks that the suite runner sees every way in which a test program can end.

  check_test_runner.py [ROOT]

Shell scripts stand for test programs: they write what Catch2's XML reporter would, up to the point
where they crash, hang or stop.
"""
import dataclasses
import glob
import os
import sys
import tempfile
import time
import unittest

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import catch_report  # noqa: E402
import run_suites  # noqa: E402
import suite_plan  # noqa: E402

# What this program itself runs under is not what its programs are to see.
for variable in ("CUGRT_EMU_CHECK", "CUGRT_EMU_REPORT"):
    os.environ.pop(variable, None)

PASSED = '<TestCase name="a"><OverallResult success="true"/></TestCase>'
FAILED = ('<TestCase name="b"><Expression success="false" type="REQUIRE" filename="x.cpp" line="7">'
          '<Original> one == two </Original><Expanded> 1 == 2 </Expanded></Expression>'
          '<OverallResult success="false"/></TestCase>')
SKIPPED = '<TestCase name="c"><Skip>no card</Skip><OverallResult success="true" skips="1"/></TestCase>'


class Runner(unittest.TestCase):
    def run_program(self, xml, ending, is_catch=True, timeout_s=20.0):
        """Runs a shell script that writes this report, then does this. $4 is the report's path."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "program")
            with open(script, "w") as file:
                file.write(f"#!/bin/bash\n[ $# = 0 ] || printf '%s' '{xml}' >\"$4\"\n{ending}\n")
            os.chmod(script, 0o755)
            return catch_report.run(suite_plan.Program("unit_x", [script], {}, folder, timeout_s,
                                                       is_catch))

    def run_checked(self, ending):
        """The same with the emulated driver's checks on."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "program")
            with open(script, "w") as file:
                file.write(f"#!/bin/bash\n{ending}\n")
            os.chmod(script, 0o755)
            return catch_report.run(suite_plan.Program("unit_x", [script], {}, folder, 20.0, False,
                                                       ("race", "nodes")))

    def counts(self, outcome):
        return outcome.passed, len(outcome.failures), len(outcome.skips)

    def test_cases_that_passed_are_counted(self):
        outcome = self.run_program(f"<Catch><Group>{PASSED}{PASSED}</Group></Catch>", "exit 0")
        self.assertEqual(self.counts(outcome), (2, 0, 0))

    def test_a_failed_case_is_named_with_its_place_and_values(self):
        outcome = self.run_program(f"<Catch>{PASSED}{FAILED}</Catch>", "exit 1")
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        title, detail = outcome.failures[0]
        self.assertEqual(title, "b")
        self.assertIn("x.cpp:7: REQUIRE( one == two )", detail)
        self.assertIn("1 == 2", detail)

    def test_what_a_case_that_passed_tells_is_a_note(self):
        told = '<TestCase name="a"><Section><Warning>\n  7 us\n  a node </Warning></Section><OverallResult success="true"/></TestCase>'
        outcome = self.run_program(f"<Catch>{told}{PASSED}</Catch>", "exit 0")
        self.assertEqual((outcome.passed, outcome.notes), (2, ["7 us a node"]))

    def test_seventy_seven_failed_assertions_are_no_skip(self):
        outcome = self.run_program(f"<Catch>{FAILED}</Catch>", "exit 77")
        self.assertEqual(self.counts(outcome), (0, 1, 0))

    def test_exit_77_before_any_case_is_a_skip_with_its_reason(self):
        outcome = self.run_program("", "echo no device was found; exit 77")
        self.assertEqual(self.counts(outcome), (0, 0, 1))
        self.assertEqual(outcome.skips, ["no device was found"])

    def test_a_case_that_skips_itself_is_a_skip(self):
        outcome = self.run_program(f"<Catch>{PASSED}{SKIPPED}</Catch>", "exit 0")
        self.assertEqual(self.counts(outcome), (1, 0, 1))

    def test_a_crash_names_the_case_and_keeps_those_that_had_ended(self):
        outcome = self.run_program(f'<Catch>{PASSED}<TestCase name="deep">', "kill -SEGV $$")
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertRegex(outcome.failures[0][0], "SIGSEGV in: deep")

    def test_a_sanitizer_report_after_all_cases_passed_is_a_failure(self):
        outcome = self.run_program(f"<Catch>{PASSED}</Catch>", "echo ERROR: leak; exit 23")
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertIn("leak", outcome.failures[0][1])

    def test_a_report_cut_inside_a_tag_keeps_those_that_had_ended(self):
        outcome = self.run_program(f"<Catch>{PASSED}<TestCa", "exit 3")
        self.assertEqual(self.counts(outcome), (1, 1, 0))

    def test_a_program_that_hangs_is_ended_and_is_a_failure(self):
        outcome = self.run_program(f'<Catch>{PASSED}<TestCase name="slow">', "sleep 60 & wait",
                                   timeout_s=0.5)
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertIn("did not end", outcome.failures[0][0])
        self.assertLess(outcome.seconds, 30)

    def test_tests_are_left_out_by_name_tag_and_cases(self):
        def program(label, tags):
            return suite_plan.Program(label, [label], {}, ".", 1, True, tags=frozenset(tags))

        found = [program("a", ["unit"]), program("asan b", ["unit", "again"]), program("c", ["unit", "again"])]
        for name, expected in [("a", [["asan b"], ["c"]]), ("b", [["a"], ["c"]]), ("again", [["a"]]),
                               ("a[slow]", [["a", "~[.]~[slow]"], ["asan b"], ["c"]]),
                               ("[slow]", [["a", "~[.]~[slow]"], ["asan b", "~[.]~[slow]"], ["c", "~[.]~[slow]"]])]:
            self.assertEqual([one.command for one in suite_plan.leave_out(found, name)], expected)

    def test_parts_have_each_program_once(self):
        for count in (1, 2, 3):
            parts = [suite_plan.part_of(list("abcdefg"), f"{number}/{count}") for number in range(count)]
            self.assertEqual(sorted(sum(parts, [])), list("abcdefg"))
        self.assertEqual(suite_plan.part_of(list("abcde"), "1/2"), ["b", "d"])

    def test_a_program_that_would_begin_too_late_is_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "made")
            program = suite_plan.Program("unit_x", ["touch", made], {}, folder, 20.0, False)
            late = run_suites.run_before(program, time.time() - 1)
            self.assertEqual((self.counts(late), os.path.exists(made)), ((0, 0, 1), False))
            early = run_suites.run_before(program, time.time() + 60)
            self.assertEqual((self.counts(early), os.path.exists(made)), ((1, 0, 0), True))

    def test_a_program_without_cases_is_a_failure(self):
        self.assertEqual(self.counts(self.run_program("<Catch></Catch>", "exit 0")), (0, 1, 0))

    def test_a_script_is_one_case(self):
        for ending, expected in [("exit 0", (1, 0, 0)), ("exit 1", (0, 1, 0)),
                                 ("echo why; exit 77", (0, 0, 1))]:
            self.assertEqual(self.counts(self.run_program("", ending, is_catch=False)), expected)

    def test_a_script_may_count_its_cases(self):
        outcome = self.run_program("", "echo 5 passed, 2 failed, 1 skipped; exit 1", is_catch=False)
        self.assertEqual(self.counts(outcome), (5, 2, 1))

    def test_a_script_may_tell_its_failures_and_have_lines_shown(self):
        said = ["failed: seed 7", "  a line", "    another", "failed: seed 9", "", "99 % alike",
                "5 passed, 2 failed, 0 skipped"]
        outcome = self.run_program("", "\n".join(f'echo "{s}"' for s in said) + "\nexit 1",
                                   is_catch=False)
        self.assertEqual(outcome.failures, [("seed 7", "a line\n  another"), ("seed 9", "")])
        self.assertEqual(outcome.notes, ["99 % alike"])
        outcome = self.run_program("", "echo; echo all alike; echo 5 passed, 0 failed, 0 skipped",
                                   is_catch=False)
        self.assertEqual((outcome.passed, outcome.notes), (5, ["all alike"]))

    def test_a_script_whose_count_denies_its_status_is_a_failure(self):
        for ending in ["echo 5 passed, 0 failed, 0 skipped; exit 1",
                       "echo 5 passed, 1 failed, 0 skipped; exit 0"]:
            outcome = self.run_program("", ending, is_catch=False)
            self.assertEqual(len(outcome.failures), 1)
            self.assertEqual(outcome.passed, 0)


    def test_a_finding_of_the_emulated_driver_is_a_failure(self):
        outcome = self.run_checked('echo "cugrt-emu: race: two warps" >>"$CUGRT_EMU_REPORT"')
        self.assertEqual(self.counts(outcome), (1, 1, 0))
        self.assertEqual(outcome.failures,
                         [("unit_x: findings of the emulated driver", "race: two warps")])
        # One that a call returned as an error is for the program to judge, as is one that tells
        # of checks that are asked for by their names.
        outcome = self.run_checked('echo "cugrt-emu: fault: a race: none" >>"$CUGRT_EMU_REPORT"')
        self.assertEqual(self.counts(outcome), (1, 0, 0))
        self.assertEqual(self.counts(self.run_checked('[ "$CUGRT_EMU_CHECK" = race,nodes ]')),
                         (1, 0, 0))
        self.assertEqual(self.counts(self.run_program("", '[ -z "$CUGRT_EMU_CHECK" ]',
                                                      is_catch=False)), (1, 0, 0))

    def test_checks_are_asked_for_by_the_names_in_their_table(self):
        checks = suite_plan.checks_on_request()
        for name in ("race", "nodes", "programmatic", "streams", "leak"):
            self.assertIn(name, checks)
        self.assertNotIn("fault", checks)
        self.assertEqual(suite_plan.checks_of("unit_x"), checks)
        self.assertEqual(suite_plan.checks_of("foreign"), ())
        self.assertEqual(suite_plan.checks_of("conformance_v3"), ())  # declared in folders for installing alone

    def test_cuda_of_wheels_is_looked_for_in_the_source_tree(self):
        sys.path.insert(0, os.path.join(ROOT, "src", "device", "driver"))
        import find_cuda
        self.assertEqual(os.path.realpath(find_cuda.ROOT), os.path.realpath(ROOT))

    def test_what_is_left_out_is_there(self):
        declared = ""
        for path in glob.glob(os.path.join(ROOT, "tests", "**", "meson.build"), recursive=True):
            with open(path) as file:
                declared += file.read()
        for program, (checks, _) in suite_plan.WITHOUT_CHECKS.items():
            self.assertIn(f"test('{program}'", declared)
            for check in checks.split(","):
                self.assertIn(check, suite_plan.checks_on_request() + ("all",))


class Requests(unittest.TestCase):
    def test_no_argument_asks_for_every_plain_suite(self):
        self.assertEqual([name for name, _ in suite_plan.requests([])],
                         list(suite_plan.PLAIN_SUITES))

    def test_options_belong_to_the_suite_before_them(self):
        asked = suite_plan.requests(["oracle", "--seeds", "0..9", "fuzz", "--seconds=3", "unit"])
        self.assertEqual(asked, [("oracle", ["--seeds", "0..9"]), ("fuzz", ["--seconds=3"]),
                                 ("unit", [])])

    def test_an_unknown_suite_is_refused(self):
        for arguments in (["nonsense"], ["unit", "nonsense"], ["--seeds", "3"]):
            with self.assertRaises(suite_plan.UnknownSuite):
                suite_plan.requests(arguments)

    def test_each_folder_is_named_once(self):
        asked = suite_plan.requests(["unit", "golden", "asan", "fuzz"])
        self.assertEqual(suite_plan.folders(asked), ["build", "build-asan"])

    def test_own_options_are_told_from_those_of_suites(self):
        own, asked = run_suites.parse_arguments(["--jobs", "3", "unit"])
        self.assertEqual((own.jobs, asked), (3, [("unit", [])]))

    def test_a_build_folder_may_be_named(self):
        try:
            run_suites.parse_arguments(["--build", "build-other", "unit"])
            self.assertEqual(suite_plan.folders([("unit", []), ("asan", [])]),
                             ["build-other", "build-asan"])
            run_suites.parse_arguments(["unit"])
            self.assertEqual(suite_plan.folders([("unit", [])]), ["build"])
        finally:
            suite_plan.plain_folder = suite_plan.PLAIN_FOLDER

    def test_tests_and_cases_with_a_tag_can_be_left_out(self):
        catch, script = (suite_plan.Program(name, [name], {}, ".", 1.0, name == "unit_a")
                         for name in ("unit_a", "unit_b"))
        self.assertEqual(suite_plan.leave_out([catch, script], "unit_b"), [catch])
        self.assertEqual(suite_plan.leave_out([catch, script], "unit_c"), [catch, script])
        tagged, other = suite_plan.leave_out([catch, script], "unit_a[slow]")
        self.assertEqual((tagged.command, other), (["unit_a", "~[.]~[slow]"], script))
        sanitized = dataclasses.replace(catch, label="asan unit_a")
        self.assertEqual(suite_plan.leave_out([sanitized, script], "unit_a"), [script])

    def test_sanitized_programs_do_not_check_each_access(self):
        asked = {"CUGRT_EMU_ORDER": "1", "CUGRT_EMU_CHECK": "race,bounds,uninitialized"}
        self.assertEqual(suite_plan.sanitized_environment("differential_groups_order", asked),
                         {"CUGRT_EMU_ORDER": "1", "CUGRT_EMU_CHECK": "bounds"})
        for program in suite_plan.SANITIZED_WITH_CHECKS:
            self.assertEqual(suite_plan.sanitized_environment(program, asked), asked)
        for other in ({}, {"CUGRT_EMU_CHECK": "nodes,programmatic"}):
            self.assertEqual(suite_plan.sanitized_environment("differential_control", other), other)

    def test_what_takes_longest_is_begun_first_and_the_rest_as_asked_for(self):
        a, b, c = (suite_plan.Program(name, [name], {}, ".", 1.0, True, priority=priority)
                   for name, priority in (("a", 0), ("b", 2), ("c", 0)))
        self.assertEqual([program.label for program in suite_plan.longest_first([a, b, c])], ["b", "a", "c"])

    def test_fuzz_seconds_are_read_in_both_forms(self):
        self.assertEqual(suite_plan.fuzz_seconds(["--seconds", "7"]), 7)
        self.assertEqual(suite_plan.fuzz_seconds(["--seconds=8"]), 8)
        self.assertEqual(suite_plan.fuzz_seconds(None), suite_plan.FUZZ_SECONDS)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    sys.stderr.flush()
    print(f"{result.testsRun - bad} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(1 if bad else 0)
