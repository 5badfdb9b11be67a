#!/usr/bin/env python3
"""Runs the C99 client of the first release against the library of today.

  run_client.py CLIENT EMULATED_DRIVER
"""
import subprocess
import sys

if __name__ == "__main__":
    sys.exit(subprocess.run(sys.argv[1:], check=False, timeout=60).returncode)
