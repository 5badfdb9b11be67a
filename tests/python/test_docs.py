"""The Python of README, docs/python.md and the notebooks runs, and prints what it says."""
import contextlib
import glob
import io
import json
import os
import re
import shutil

import cugrt

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks(path, language):
    with open(os.path.join(ROOT, path)) as file:
        return re.findall(rf"```{language}\n(.*?)```", file.read(), re.S)


def test_the_readme_s_program_prints_what_it_says(tmp_path, monkeypatch, capsys):
    module, = blocks("README.md", "cugrt")
    program, = blocks("README.md", "python")
    (tmp_path / "classify.cugrt").write_text(module)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "0.100\n"


def test_the_page_s_module_is_built_and_loaded():
    built, = [block for block in blocks("docs/python.md", "python") if "cugrt.Module()" in block]
    names = {"cugrt": cugrt, "np": __import__("numpy")}
    exec(compile(built, "docs/python.md", "exec"), names)
    assert abs(names["model"](x=names["np"].ones((2, 64), "float32")) - 0.1).max() < 1e-6


def test_the_page_s_language_model_runs(tiny_path, tmp_path, monkeypatch, capsys):
    """The language model's, with the tiny one in the place of model.gguf."""
    program, = [block for block in blocks("docs/python.md", "python") if "cugrt.LLM(" in block and "places=" in block]
    (tmp_path / "model.gguf").write_bytes(tiny_path.read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(program.replace("places=4", "places=4, context=256"), "docs/python.md", "exec"), {"cugrt": cugrt})
    assert capsys.readouterr().out


def test_notebooks_print_what_they_show(tmp_path, monkeypatch):
    """Each in a copy of its folder, cell after cell. A cell whose output depends on the plan shows none."""
    notebooks = glob.glob(os.path.join(ROOT, "examples", "*", "*.ipynb"))
    assert notebooks
    for path in notebooks:
        folder = shutil.copytree(os.path.dirname(path), tmp_path / os.path.basename(path))
        monkeypatch.chdir(folder)
        with open(path) as file:
            cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
        names = {}
        for cell in cells:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), path, "exec"), names)
            shown = "".join(line for output in cell["outputs"] for line in output["text"])
            assert printed.getvalue() == shown or (printed.getvalue() and not shown), path
