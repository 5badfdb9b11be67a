"""Tests with sentences as titles, for scripts that check a program from outside.

    @test("the tool says so")
    def _(subject):
        equal(subject.run("x"), "y")

    sys.exit(run_tests(subject))

All tests of a script have one subject. What is printed is what tests/support/run_suites.py reads.
"""
TESTS = []


def test(title):
    def add(function):
        TESTS.append((title, function))
        return function
    return add


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def run_tests(subject):
    """The script's exit status."""
    failed = []
    for title, function in TESTS:
        try:
            function(subject)
        except (AssertionError, KeyError, IndexError, ValueError) as error:
            failed.append((title, f"{type(error).__name__}: {error}"))
    for title, detail in failed:
        print(f"failed: {title}")
        print("\n".join("  " + line for line in detail.splitlines()))
    print(f"{len(TESTS) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0
