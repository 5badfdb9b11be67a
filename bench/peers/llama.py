#!/usr/bin/env python3
"""llama.cpp on a GGUF file, through its C API in the wheel llama-cpp-cffi: what a prompt takes and what a token, as rows
with the keys of `cugrt bench MODEL.gguf --json`.

  llama.py FOLDER MODEL.gguf PROMPT GENERATE

FOLDER has what pip has installed there. The extension for CUDA is taken where there is a GPU, else the one for the
processor. Each case is measured with flash attention and without, the better one counts: of a prompt the median of
five, of a token the mean of GENERATE, the best of three.
"""
import glob
import importlib.util
import json
import os
import statistics
import sys
import time


def opened(folder):
    """The extension's library, and what makes C values."""
    sys.path.insert(0, folder)
    kind = "cuda" if os.path.exists("/dev/nvidiactl") else "cpu"
    path, = glob.glob(os.path.join(folder, "llama", f"_llama_cpp_{kind}*.so"))
    name = os.path.basename(path).split(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lib, module.ffi


class Context:
    def __init__(self, lib, ffi, model, positions, flash):
        settings = lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = positions, 512, 512
        settings.n_threads = settings.n_threads_batch = len(os.sched_getaffinity(0))
        settings.flash_attn = flash
        self.lib, self.ffi, self.context = lib, ffi, lib.llama_init_from_model(model, settings)
        assert self.context != ffi.NULL, "no context"

    def clear(self):
        self.lib.llama_kv_self_clear(self.context)

    def decode(self, ids):
        """Seconds that these tokens take, at once."""
        tokens = self.ffi.new("int32_t[]", ids)
        begin = time.perf_counter()
        for at in range(0, len(ids), 512):
            part = self.lib.llama_batch_get_one(tokens + at, min(512, len(ids) - at))
            assert self.lib.llama_decode(self.context, part) == 0, "llama_decode failed"
        self.lib.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def free(self):
        self.lib.llama_free(self.context)


def measure(lib, ffi, path, prompt, generate):
    lib.llama_backend_init()
    settings = lib.llama_model_default_params()
    settings.n_gpu_layers = 999
    model = lib.llama_model_load_from_file(path.encode(), settings)
    assert model != ffi.NULL, f"{path} was not loaded"
    vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    ids = [i * 7919 % vocabulary for i in range(prompt)]
    found = []
    for flash in (True, False):
        context = Context(lib, ffi, model, prompt + generate + 8, flash)
        prompts, steps = [], []
        for turn in range(6):
            context.clear()
            seconds = context.decode(ids)
            if turn:  # the first one warms up
                prompts.append(seconds)
        for _ in range(3):
            context.clear()
            context.decode(ids)
            steps.append(sum(context.decode([i * 31 % vocabulary]) for i in range(generate)))
        context.free()
        found.append((statistics.median(prompts), min(steps)))
    return [{"bench": "llama.cpp", "case": case, "tokens": tokens, "seconds": seconds, "tokens_per_s": tokens / seconds}
            for case, tokens, seconds in (("prefill", prompt, min(p for p, _ in found)),
                                          ("decode", generate, min(s for _, s in found)))]


def main():
    folder, path, prompt, generate = os.path.abspath(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
    out = os.dup(1)
    os.dup2(2, 1)  # what llama.cpp prints is no row
    rows = measure(*opened(folder), path, prompt, generate)
    os.write(out, json.dumps(rows).encode() + b"\n")


if __name__ == "__main__":
    main()
