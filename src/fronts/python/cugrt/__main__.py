"""What needs Python; other commands are those of the tool `cugrt`.

  python -m cugrt run MODEL.pt2 [--input NAME=FILE.npy|random]... [--set SYMBOL=N]... [--output FOLDER] [--stats]
  python -m cugrt import MODULE.json -o MODEL.cugrt
"""
import argparse
import json
import os
import sys

from ._errors import Code, Error


def pair(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def run(options):
    import numpy
    import torch

    import cugrt

    model = cugrt.load(cugrt.from_exported(torch.export.load(options.model)))
    files, symbols, random = dict(options.input), {name: int(n) for name, n in options.set}, numpy.random.default_rng(0)
    if unknown := set(files) - {spec.name for spec in model.inputs}:
        raise Error(f"--input names '{min(unknown)}', which is no input of '{options.model}'")

    def given(spec):
        if files.get(spec.name, "random") != "random":
            return numpy.load(files[spec.name])
        for dim in spec.shape:
            if not isinstance(dim, int) and dim not in symbols:
                raise Error(f"input '{spec.name}' has the dimension {dim}: --set {dim}=N says it")
        shape = [dim if isinstance(dim, int) else symbols[dim] for dim in spec.shape]
        return random.random(shape).astype(spec.dtype)

    made = model(**{spec.name: given(spec) for spec in model.inputs})
    for spec, array in zip(model.outputs, made if isinstance(made, tuple) else (made,)):
        print(f"{spec.name}: {array.dtype}{list(array.shape)}")
        if options.output:
            os.makedirs(options.output, exist_ok=True)
            numpy.save(os.path.join(options.output, spec.name + ".npy"), array)
    if options.stats:
        print(" ".join(f"{name} {value}" for name, value in model.counters.items()), file=sys.stderr)


def import_json(options):
    import tvm

    import cugrt

    with open(options.model, encoding="utf-8") as file:
        text = file.read()
    version = json.loads(text).get("metadata", {}).get("tvm_version", "unknown")
    if version != tvm.__version__.split("+")[0]:
        raise Error(f"'{options.model}' is of TVM {version}, and {tvm.__version__} is installed", Code.UNSUPPORTED)
    module = cugrt.from_relax(tvm.ir.load_json(text))
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(module.text)


def main():
    parser = argparse.ArgumentParser(prog="python -m cugrt", usage=__doc__)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--input", type=pair, action="append", default=[])
    running.add_argument("--set", type=pair, action="append", default=[])
    running.add_argument("--output")
    running.add_argument("--stats", action="store_true")
    importing = commands.add_parser("import")
    importing.add_argument("-o", dest="output", required=True)
    for command, does in ((running, run), (importing, import_json)):
        command.add_argument("model")
        command.set_defaults(does=does)
    options = parser.parse_args()
    try:
        options.does(options)
    except (Error, OSError, ImportError, ValueError) as error:
        sys.exit(f"python -m cugrt: {error}")


if __name__ == "__main__":
    main()
