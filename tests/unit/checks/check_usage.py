"""Wrong command lines: one line that names what is wrong and where help is, status 2, nothing on
standard output. Usage: check_usage.py CUGRT
"""
import subprocess
import sys

CASES = [
    # arguments; what the line must hold
    ([], ["subcommand is required", "cugrt --help"]),
    (["frobnicate"], ["no command 'frobnicate'", "run plan compile", "cugrt --help"]),
    (["run"], ["MODULE is required", "cugrt run --help"]),
    (["run", "a.cugrt", "b.cugrt"], ["b.cugrt", "cugrt run --help"]),
    (["run", "a.cugrt", "--frob"], ["--frob", "cugrt run --help"]),
    (["plan", "a.cugrt", "--json", "--svg"], ["--json excludes --svg", "cugrt plan --help"]),
    (["compile", "a.cugrt"], ["--output is required", "cugrt compile --help"]),
    (["cache"], ["subcommand is required", "cugrt cache --help"]),
    (["cache", "frobnicate"], ["no command 'frobnicate'", "list verify", "cugrt cache --help"]),
]


def main():
    failures = 0
    for arguments, parts in CASES:
        result = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True,
                                timeout=60, check=False)
        problems = [f"{part!r} is not in it" for part in parts if part not in result.stderr]
        if result.returncode != 2:
            problems.append(f"status {result.returncode}")
        if result.stdout:
            problems.append(f"stdout: {result.stdout!r}")
        if not result.stderr.startswith("cugrt: error: ") or result.stderr.count("\n") != 1:
            problems.append("not one line of an error")
        if problems:
            failures += 1
            print(f"cugrt {' '.join(arguments)}: {'; '.join(problems)}: {result.stderr!r}")
    for arguments in (["--help"], ["run", "--help"], ["--version"]):
        result = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True,
                                timeout=60, check=False)
        if result.returncode or not result.stdout or result.stderr:
            failures += 1
            print(f"cugrt {' '.join(arguments)}: status {result.returncode}: {result.stderr!r}")
        with open("/dev/full", "w") as full:
            result = subprocess.run([sys.argv[1], *arguments], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=60, check=False)
        if result.returncode != 1 or "cannot write to standard output" not in result.stderr:
            failures += 1
            print(f"cugrt {' '.join(arguments)} > /dev/full: status {result.returncode}: "
                  f"{result.stderr!r}")
    print(f"{len(CASES) + 6} command lines, {failures} answered wrongly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
