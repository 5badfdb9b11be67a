#!/usr/bin/env python3
"""Lists the files of families' folders for Meson: those with the suffix below FOLDER, one a line.

  families.py FOLDER SUFFIX
"""
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
print("\n".join(sorted(str(path.relative_to(folder)) for path in folder.glob(f"*/*{sys.argv[2]}"))))
