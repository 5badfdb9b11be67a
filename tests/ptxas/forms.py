"""The forms in which kernels are launched: what codegen makes of every module in the tree.

A form is a source with its options and an entry. Modules are those of *.cugrt files, of golden files and
in raw strings of tests and benches; each is lowered op by op and as the default pipeline fuses it, with
its own dtypes and with others in the place of f32. Beside them stand the kernels of language models'
state, which a decoder's module declares. Forms that differ only in the sizes that they assume, or in a
generated kernel's name, count once.
"""
import concurrent.futures
import glob
import itertools
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("tests/nvrtc12", "tests/golden/passes", "tests/golden/runtime", "tests/differential", "tests/support",
           "tests/ptxas", "bench", "examples")
PIPELINES = {"op by op": ["--pass", "LegalizeOps"], "fused": []}
DTYPES = ("f32", "f16", "bf16", "f64")
KERNEL = re.compile(r'^kernel @(\w+) \{\n((?:  inline """\n.*?\n *"""\n)?(?:  [^\n]*\n)*)\}', re.S | re.M)


class Form:
    """A kernel's translation unit; `blocks`: by entry, the most threads and dynamic shared bytes of a launch."""

    def __init__(self, kernel, text):
        self.kernel = kernel
        inline = re.search(r'^  inline """\n(.*?)\n *"""$', text, re.S | re.M)
        named = re.search(r'^  source "(.*)"$', text, re.M)
        self.source, self.name = (inline[1], "inline") if inline else ("", named[1] if named else "")
        rest = text.replace(inline[0], "") if inline else text
        options = re.search(r'^  options \[(.*)\]$', rest, re.M)
        self.options = re.findall(r'"((?:[^"\\]|\\.)*)"', options[1]) if options else []
        first = re.search(r'^  entry "(\w+)"$', rest, re.M)
        self.blocks = {}
        for launch in re.findall(r'^  launch \{(.*)\}$', rest, re.M):
            entry = re.search(r'entry "(\w+)"', launch)
            block = re.search(r'block \(([^()]*)\)', launch)
            shared = re.search(r'shared (\d+)', launch)
            dims = block[1].split(",") if block else []
            threads = 1
            for dim in dims:
                threads *= int(dim) if dim.strip().isdigit() else 1
            known = all(dim.strip().isdigit() for dim in dims)
            self.blocks.setdefault(entry[1] if entry else first[1], []).append(
                (threads if known else 0, int(shared[1]) if shared else 0))

    def key(self):
        """What makes the form one of its own."""
        options = tuple(re.sub(r"\d+", "N", o) if o.startswith("-DASSUME") else o for o in self.options)
        source = re.sub(r"\bfused_\w+", "fused", self.source)
        return self.name, source, options, tuple(sorted(self.blocks))


def module_texts():
    """Texts that begin as modules do, wherever they stand."""
    texts = set()
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True)):
            if not path.endswith((".cugrt", ".txt", ".cpp", ".h")) or os.path.basename(path).startswith("bad-"):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if path.endswith(".cugrt"):
                texts.add(text)
            elif path.endswith(".txt"):
                texts.update(re.findall(r"^--- input\n(cugrt 1\n.*?)^---", text, re.S | re.M))
            else:
                texts.update(re.findall(r'R"\((cugrt 1\n.*?)\)"', text, re.S))
    return sorted(texts)


def lowered(cugrt, text, passes, architecture):
    """The module's text behind the passes; empty where it is none, or not with these dtypes."""
    made = subprocess.run([cugrt, "opt", "-", *passes, "--option", f"target.compute_capability={architecture}"], input=text, capture_output=True, text=True,
                          env=dict(os.environ, CUGRT_LOG="off"))
    return made.stdout if made.returncode == 0 else ""


def state_kernels():
    """What src/fronts/llm declares beside ops."""
    with open(os.path.join(ROOT, "src", "fronts", "llm", "architectures", "state_kernels.cpp"), encoding="utf-8") as file:
        return "".join(re.findall(r'R"\((.*?)\)"', file.read(), re.S))


def find_forms(cugrt, jobs, architecture):
    """Every form that is chosen for a device of the architecture, in a fixed order, and how many modules there are."""
    texts = module_texts()
    tries = [(re.sub(r"\bf32\b", dtype, text), passes) for text in texts for dtype in DTYPES
             if dtype == "f32" or re.search(r"\bf32\b", text) for passes in PIPELINES.values()]
    forms = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        made = pool.map(lambda one: lowered(cugrt, *one, architecture), tries)
        for out in itertools.chain(made, [state_kernels()]):
            for kernel, body in KERNEL.findall(out):
                form = Form(kernel, body)
                if form.name.startswith("builtin:") or "builtin:" in form.source:
                    forms.setdefault(form.key(), form)
    return [forms[key] for key in sorted(forms)], len(texts)
