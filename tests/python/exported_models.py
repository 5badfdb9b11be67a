"""Six PyTorch models with random weights, each with examples of several shapes.

``make(NAME)`` gives the model, its examples, and its dynamic dimensions, as torch.export takes them. The first example
is what the program is exported with.
"""

import math

import torch
import torchvision
from torch import nn
from torch.export import Dim
from torch.nn import functional

NAMES = ["resnet18", "vit_block", "bert", "lstm", "decoder_block", "mobilenet_v3"]


def images(model):
    """With statistics of the batch norms that are those of an example, so that what comes out is neither 0 nor huge."""
    for one in model.modules():
        if isinstance(one, nn.BatchNorm2d):
            one.momentum = 1.0
    model.train()(torch.rand(8, 3, 64, 64))
    batch = Dim("batch", min=1, max=4)
    return model.eval(), [(torch.rand(n, 3, 64, 64),) for n in (2, 1, 3)], ({0: batch},)


def resnet18():
    return images(torchvision.models.resnet18())


def mobilenet_v3():
    return images(torchvision.models.mobilenet_v3_small())


def vit_block():
    block = torchvision.models.vision_transformer.EncoderBlock(4, 64, 128, 0.0, 0.0)
    batch = Dim("batch", min=1, max=8)
    return block.eval(), [(torch.rand(n, 17, 64),) for n in (2, 1, 4)], ({0: batch},)


class Encoder(nn.Module):
    """As BERT: embeddings of words and places, layers of attention behind a mask of keys, a pooler."""

    def __init__(self, words=100, width=64, heads=4, layers=2, places=64):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.norm, self.pooler = nn.LayerNorm(width), nn.Linear(width, width)
        self.register_buffer("position_ids", torch.arange(places), persistent=False)
        linear = lambda a=width, b=width: nn.Linear(a, b)  # noqa: E731
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{name: linear() for name in ("query", "key", "value", "output")},
                    "attention_norm": nn.LayerNorm(width),
                    "up": linear(width, 4 * width),
                    "down": linear(4 * width, width),
                    "norm": nn.LayerNorm(width),
                }
            )
            for _ in range(layers)
        )

    def forward(self, input_ids, attention_mask):
        batch, length = input_ids.shape
        x = self.norm(self.words(input_ids) + self.places(self.position_ids[:length]))
        mask = attention_mask[:, None, None, :] != 0
        for layer in self.layers:
            split = lambda y: y.view(batch, length, self.heads, -1).transpose(1, 2)  # noqa: E731
            given = [split(layer[name](x)) for name in ("query", "key", "value")]
            seen = functional.scaled_dot_product_attention(*given, attn_mask=mask)
            seen = layer["output"](seen.transpose(1, 2).reshape(batch, length, -1))
            x = layer["attention_norm"](x + seen)
            x = layer["norm"](x + layer["down"](functional.gelu(layer["up"](x))))
        return {"last_hidden_state": x, "pooler_output": torch.tanh(self.pooler(x[:, 0]))}


def bert():
    def example(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length - 2 :] = 0
        return torch.randint(0, 100, (batch, length)), mask

    dims = {0: Dim("batch", min=1, max=4), 1: Dim("length", min=2, max=64)}
    return Encoder().eval(), [example(2, 9), example(1, 5), example(3, 17)], (dims, dims)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        y, (hidden, cell) = self.lstm(x)
        return self.head(y[:, -1]), hidden, cell


def lstm():
    return Recurrent().eval(), [(torch.rand(n, 7, 16),) for n in (2, 1, 5)], ({0: Dim("batch", min=1, max=8)},)


class Decoder(nn.Module):
    """A block as Llama's: RMS norms, rotary places, a gated unit; keys and values so far come in and go out."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, size = heads, width // heads
        self.norm, self.second_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        angles = 10000.0 ** -(torch.arange(0, size, 2) / size)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, x, position, cache):
        batch, length, width = x.shape
        y = self.norm(x)
        split = lambda z: z.view(batch, length, self.heads, -1).transpose(1, 2)  # noqa: E731
        angle = position[:, :, None].float() * self.angles
        cos, sin = (torch.cat([z, z], -1)[:, None] for z in (angle.cos(), angle.sin()))

        def turned(z):
            half = z.shape[-1] // 2
            return z * cos + torch.cat([-z[..., half:], z[..., :half]], -1) * sin

        keys = torch.cat([cache[0], turned(split(self.k(y)))], 2)
        values = torch.cat([cache[1], split(self.v(y))], 2)
        scores = turned(split(self.q(y))) @ keys.transpose(-1, -2) / math.sqrt(width // self.heads)
        seen = torch.softmax(scores, -1) @ values
        x = x + self.o(seen.transpose(1, 2).reshape(batch, length, width))
        y = self.second_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), (keys, values)


def decoder_block():
    def example(batch, past):
        cache = tuple(torch.rand(batch, 4, past, 16) for _ in range(2))
        return torch.rand(batch, 1, 64), torch.full((batch, 1), past), cache

    batch, past = Dim("batch", min=1, max=4), Dim("past", min=1, max=64)
    kept = {0: batch, 2: past}
    examples = [example(2, 7), example(1, 3), example(3, 20)]
    return Decoder().eval(), examples, ({0: batch}, {0: batch}, (kept, kept))


def make(name):
    torch.manual_seed(0)
    with torch.no_grad():
        return globals()[name]()
