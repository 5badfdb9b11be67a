"""Rows of a bench in a JSON file, by the rules of write_file in src/base/file.h."""
import json
import os
import secrets
import shutil


def write_json(path, rows):
    """The file is there whole, or what was there stays; a file that is replaced keeps its mode."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(f"cannot write '{path}': not a regular file")
    beside = f"{target}.{secrets.token_hex(6)}"
    try:
        with open(beside, "x", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
        if os.path.exists(target):
            shutil.copymode(target, beside)
        os.rename(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
