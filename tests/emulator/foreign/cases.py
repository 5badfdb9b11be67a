"""Runs a client's cases and says how each ended, in the form that foreign.py reads."""
import sys
import traceback


def run(module, prefix=""):
    """Calls every function `case_*` of the module, in the order written; titles begin with the prefix."""
    bad = 0
    for name, case in list(vars(module).items()):
        if not name.startswith("case_"):
            continue
        try:
            case()
            outcome = "passed"
        except Exception:  # reported; the others still run
            traceback.print_exc()
            outcome, bad = "failed", bad + 1
        print(f"{outcome}\t{prefix}{case.__doc__}", flush=True)
    sys.exit(1 if bad else 0)
