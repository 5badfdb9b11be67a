"""What needs Python; other commands are those of the tool `cugrt`.

  python -m cugrt run MODEL.pt2 [--input NAME=FILE.npy|random]... [--set SYMBOL=N]... [--output FOLDER] [--stats]
  python -m cugrt import MODULE.json|MODEL.pt2 -o MODEL.cugrt

import: weights that the model has go to MODEL.safetensors, which the tool takes with --weights.
"""
import argparse
import json
import os
import sys
import zipfile

from . import _native
from ._errors import Code, Error
from ._files import WholeFile


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


def module_of_json(path):
    import tvm

    import cugrt

    with open(path, encoding="utf-8") as file:
        text = file.read()
    saved = json.loads(text)
    metadata = saved.get("metadata") if isinstance(saved, dict) else None
    if not isinstance(metadata, dict) or "tvm_version" not in metadata:
        raise Error(f"'{path}' is no JSON that TVM saved", Code.PARSE_ERROR)
    if metadata["tvm_version"] != tvm.__version__.split("+")[0]:
        raise Error(f"'{path}' is of TVM {metadata['tvm_version']}, and {tvm.__version__} is installed", Code.UNSUPPORTED)
    return cugrt.from_relax(tvm.ir.load_json(text))


def import_module(options):
    import cugrt

    if zipfile.is_zipfile(options.model):
        import torch

        module = cugrt.from_exported(torch.export.load(options.model))
    else:
        module = module_of_json(options.model)
    file = WholeFile(options.output)
    try:
        if module._weights:
            weights = os.path.splitext(options.output)[0] + ".safetensors"
            _native.save_weights(module._weights, weights)
            print(f"weights: {weights}")
    except BaseException:
        file.drop()
        raise
    file.put(module.text)


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
    for command, does in ((running, run), (importing, import_module)):
        command.add_argument("model")
        command.set_defaults(does=does)
    options = parser.parse_args()
    try:
        options.does(options)
    except (Error, OSError, ImportError, ValueError) as error:
        sys.exit(f"python -m cugrt: {error}")


if __name__ == "__main__":
    main()
