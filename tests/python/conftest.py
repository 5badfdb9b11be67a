"""What the package's tests share. They run on the emulated driver, or on what CUGRT_DRIVER names."""
import os
import sys

import numpy as np
import pytest

os.environ.setdefault("CUGRT_DRIVER", "emulated")
ON_HOST = os.environ["CUGRT_DRIVER"] == "emulated"  # the device's memory is the host's, and NumPy takes it
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential", "llm"))

import cugrt  # noqa: E402
import language_models  # noqa: E402

CLASSIFY = """cugrt 1

func @main(%x: tensor<[n, 6], f32>, %w: tensor<[6, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, lower_bounds = {n = 1}, upper_bounds = {n = 32}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  return %r
}
"""

# State, a result that is a scalar's tensor, and a function of several outputs.
COUNT = """cugrt 1

kernel @step {
  inline \"\"\"
extern "C" __global__ void step(const float *x, float *total, float *twice, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  total[i] += x[i];
  twice[i] = 2.0f * total[i];
}
\"\"\"
  entry "step"
  params (x: in f32, total: inout f32, twice: out f32, n: symbol i32)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

func @main(%x: tensor<[n], f32>, %total: inout tensor<[n], f32>, %twice: out tensor<[n], f32>)
    attributes {upper_bounds = {n = 1000}} {
  launch @step(%x, %total, %twice, n)
  return
}

func @pair(%a: tensor<[n], f32>, %b: tensor<[n], f32>) -> (tensor<[n], f32>, tensor<[n], f32>)
    attributes {upper_bounds = {n = 1000}} {
  %sum = add(%a, %b)
  %product = mul(%a, %b)
  return %sum, %product
}
"""


@pytest.fixture(scope="session")
def w():
    return np.arange(24, dtype="float32").reshape(6, 4) / 8 - 1


@pytest.fixture(scope="session")
def classify(w):
    return cugrt.load(CLASSIFY.encode(), weights={"w": w})


@pytest.fixture(scope="session")
def count():
    return cugrt.load(COUNT.encode())


@pytest.fixture
def x():
    """Eighths, so that every product and sum below is exact."""
    return (np.arange(48, dtype="float32").reshape(8, 6) % 17 - 8) / 8


@pytest.fixture(scope="session")
def tiny():
    """A random language model of two layers as bytes, with its logits by arithmetic of its own."""
    return language_models.Model("llama", ["q8_0"], True, 1, more=[("tokenizer.chat_template", 8, language_models.text(language_models.CHAT_TEMPLATE))])


@pytest.fixture(scope="session")
def tiny_path(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("llm") / "tiny.gguf"
    path.write_bytes(tiny.bytes)
    return path


@pytest.fixture(scope="session")
def llm(tiny_path):
    return cugrt.LLM(tiny_path, context=256, places=4)
