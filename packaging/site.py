#!/usr/bin/env python3
"""Makes the documentation a site: site.py --root TREE --work FOLDER OUT

Pages are docs/*.md, the README and the API: of C and C++ the comments of the public headers, of Python the docstrings.
mkdocs (of the interpreter that runs this) builds it; a link or an anchor that leads nowhere is an error.
"""

import argparse
import ast
import glob
import os
import re
import shutil
import subprocess
import sys

HEADERS = {
    "cugrt.h": "C",
    "cugrt.hpp": "C++",
    "llm.h": "Language models in C",
    "llm.hpp": "Language models in C++",
    "onnx.h": "ONNX in C",
}
CONFIGURATION = """site_name: cugrt
docs_dir: pages
site_dir: {out}
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.sections, search.highlight, toc.follow]
plugins: [search]
markdown_extensions: [tables, toc, pymdownx.superfences]
validation:
  nav: {{omitted_files: warn, not_found: warn}}
  links: {{not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}}
nav:
{nav}"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def comment_text(comment):
    """A block comment or lines of ///, as paragraphs."""
    lines = []
    for line in comment.splitlines():
        lines.append(re.sub(r"^\s*(/\*+|\*/|\*|///?)\s?", "", line).replace("*/", "").rstrip())
    return "\n".join(lines).strip()


def header_page(title, text):
    """What stands at the left edge and is a comment is text, the rest code; `/* ---- Name ---- */` begins a section."""
    out, code = [f"# {title}\n"], []

    def flush():
        while code and not code[0].strip():
            code.pop(0)
        while code and not code[-1].strip():
            code.pop()
        if code:
            out.append("```cpp\n" + "\n".join(code) + "\n```\n")
        code.clear()

    lines = text.splitlines()
    i = 0
    while i < len(lines):
        line = lines[i]
        section = re.match(r"/\* -+ (.+?) -+ \*/", line)
        if section:
            flush()
            out.append(f"## {section.group(1)}\n")
        elif line.startswith("/*") or line.startswith("///") or line.startswith("// "):
            flush()
            comment = [line]
            if line.startswith("/*"):
                while "*/" not in lines[i]:
                    i += 1
                    comment.append(lines[i])
            else:
                while i + 1 < len(lines) and lines[i + 1].startswith("//"):
                    i += 1
                    comment.append(lines[i])
            # Names of types in angle brackets are no HTML.
            out.append(comment_text("\n".join(comment)).replace("<", "&lt;").replace("[", "\\[") + "\n")
        else:
            code.append(line)
        i += 1
    flush()
    return "\n".join(out)


def python_page(folder):
    """The public names of the package, with their docstrings."""
    package = ast.parse(read(os.path.join(folder, "__init__.py")))
    public = []
    for node in package.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            public = ast.literal_eval(node.value)
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.py")) + glob.glob(os.path.join(folder, "*.pyi"))):
        for node in ast.parse(read(path)).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (
                node.name not in found or ast.get_docstring(node)
            ):
                found[node.name] = node
    out = ["# Python\n", "```\n" + (ast.get_docstring(package) or "") + "\n```\n"]
    for name in public:
        node = found.get(name)
        if node is None:
            sys.exit(f"the package's {name} is nowhere defined")
        out.append(f"## {name}\n")
        members = (
            [node]
            if isinstance(node, ast.FunctionDef)
            else [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
        )
        if isinstance(node, ast.ClassDef):
            out.append("```\n" + (ast.get_docstring(node) or node.name) + "\n```\n")
        for member in members:
            signature = f"{member.name}({ast.unparse(member.args)})"
            out.append("```python\n" + signature + "\n```\n")
            if ast.get_docstring(member):
                out.append("```\n" + ast.get_docstring(member) + "\n```\n")
    return "\n".join(out)


def rewritten(text, depth):
    """Links out of docs/ lead to the API page of a header, or are words."""

    def link(match):
        words, target = match.groups()
        name = os.path.basename(target)
        if name in HEADERS:
            return f"[{words}](api-{name.replace('.', '-')}.md)"
        if target.startswith("docs/"):
            return f"[{words}]({target[5:]})"
        return words if target.startswith("../") or (depth == 0 and "://" not in target) else match.group(0)

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", link, text)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("out")
    options = parser.parse_args()
    root, pages = os.path.abspath(options.root), os.path.join(os.path.abspath(options.work), "pages")
    shutil.rmtree(pages, ignore_errors=True)
    os.makedirs(pages)
    titles = {"index.md": "cugrt"}
    texts = {"index.md": rewritten(read(os.path.join(root, "README.md")), 0)}
    for path in sorted(glob.glob(os.path.join(root, "docs", "*.md"))):
        texts[os.path.basename(path)] = rewritten(read(path), 1)
    for header, title in HEADERS.items():
        texts[f"api-{header.replace('.', '-')}.md"] = header_page(
            title, read(os.path.join(root, "include", "cugrt", header))
        )
    texts["api-python.md"] = python_page(os.path.join(root, "src", "fronts", "python", "cugrt"))
    for name, text in texts.items():
        titles.setdefault(name, re.search(r"^# (.+)", text, re.M).group(1))
        with open(os.path.join(pages, name), "w", encoding="utf-8") as file:
            file.write(text)
    entry = lambda name: f"      - {titles[name]!r}: {name}\n"  # noqa: E731
    api = sorted(name for name in texts if name.startswith("api-"))
    guide = sorted(name for name in texts if name not in api and name != "index.md")
    nav = "  - cugrt: index.md\n  - Guide:\n" + "".join(map(entry, guide)) + "  - API:\n" + "".join(map(entry, api))
    configuration = os.path.join(os.path.dirname(pages), "mkdocs.yml")
    with open(configuration, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(out=os.path.abspath(options.out), nav=nav))
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    print(f"{len(texts)} pages in {options.out}")


if __name__ == "__main__":
    main()
