#!/usr/bin/env python3
"""Runs the program that makes and reads files by grammar: grammar_files.py PROGRAM COUNT. A crash is a failure."""
import subprocess
import sys

done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(done.stdout + done.stderr)
sys.exit(done.returncode and 1)
