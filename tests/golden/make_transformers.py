#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes six transformers as PyTorch exports them by default, their samples, and what ONNX Runtime makes of them.

    pip install torch torchvision onnx onnxscript onnxruntime numpy
    python tests/golden/make_transformers.py --out FOLDER [--small] [--only NAME ...]

vit      ViT-Tiny of torchvision: patches of 16, width 192, 12 layers, a class token
bert     BERT-Tiny: token ids and an attention mask in, 2 layers of width 128
whisper  the encoder of Whisper-tiny on 6 s: two convolutions, 4 layers of width 384
llama    a step of a decoder of 4 layers: rotary positions, grouped queries, SwiGLU, a KV cache of fixed length
swin     the patches and the first two blocks of torchvision's Swin-T, the second one shifted
convnext the patches and the first three blocks of torchvision's ConvNeXt-T

--small keeps the kinds of layers and takes widths and lengths of a few dozen. Weights are random and scaled as trained
ones: matrices by the root of their rows, norms around 1, layer scales around 0.4.

NAME.onnx is the export. NAME_calibration.npz and NAME_test.npz hold an array for each input, by its name, and
NAME_float.npz and NAME_qdq.npz what ONNX Runtime computes of the test samples: of the export, and of its static
quantization (QDQ, int8, per channel, its defaults for all else, calibrated on the same samples). The samples of llama
are steps of sequences; its caches are those that the float model made.

measure_transformers.py quantizes the models of a folder and prints the table.
"""
import argparse
import math
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torchvision
from onnxruntime import quantization
from torch import nn
from torch.nn import functional as F

SEED = 7


def scale_as_trained(model):
    """Random values with the sizes that trained ones have."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            nn.init.normal_(module.weight, 0, module.weight[0].numel() ** -0.5)
            if module.bias is not None:
                nn.init.normal_(module.bias, 0, 0.05)
        elif isinstance(module, nn.MultiheadAttention):
            nn.init.normal_(module.in_proj_weight, 0, module.embed_dim**-0.5)
            nn.init.normal_(module.in_proj_bias, 0, 0.05)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, 0, 0.5)
        elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            nn.init.uniform_(module.weight, 0.6, 1.4)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, 0, 0.1)
    for name, parameter in model.named_parameters():
        if name.endswith(("class_token", "pos_embedding", "relative_position_bias_table")):
            nn.init.normal_(parameter, 0, 0.3)
        elif name.endswith("layer_scale"):
            nn.init.uniform_(parameter, 0.2, 0.7)
    return model.eval()


def heads_of(x, heads):
    """(N, tokens, width) to (N, heads, tokens, width / heads)"""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        query, key, value = (heads_of(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        return self.out(joined(F.scaled_dot_product_attention(query, key, value, attn_mask=mask)))


class Encoder(nn.Module):
    """A layer with its norms in front (Whisper) or behind the adds (BERT)."""

    def __init__(self, width, heads, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def perceptron(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x, mask=None):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.perceptron(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.perceptron(x))


class Bert(nn.Module):
    def __init__(self, words, tokens, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Encoder(width, heads, norm_first=False) for _ in range(layers))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 3)
        self.register_buffer("position_ids", torch.arange(tokens)[None])

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.kinds(torch.zeros_like(input_ids)) + self.places(self.position_ids)
        x = self.norm(x)
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Whisper(nn.Module):
    def __init__(self, bands, frames, width, heads, layers):
        super().__init__()
        self.conv1 = nn.Conv1d(bands, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        angles = torch.arange(frames // 2)[:, None] * torch.exp(
            -math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.ModuleList(Encoder(width, heads, norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        linear = lambda rows, columns: nn.Linear(rows, columns, bias=False)
        self.query, self.out = linear(width, width), linear(width, width)
        self.key, self.value = linear(width, groups * self.size), linear(width, groups * self.size)
        self.gate, self.up, self.down = linear(width, 3 * width), linear(width, 3 * width), linear(3 * width, width)

    @staticmethod
    def rotated(x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    def forward(self, x, cos, sin, position, mask, keys, values):
        y = self.norm1(x)
        query = self.rotated(heads_of(self.query(y), self.heads), cos, sin)
        key = self.rotated(heads_of(self.key(y), self.groups), cos, sin)
        keys = keys.index_copy(2, position, key)
        values = values.index_copy(2, position, heads_of(self.value(y), self.groups))
        every = [t.repeat_interleave(self.heads // self.groups, 1) for t in (keys, values)]
        x = x + self.out(joined(F.scaled_dot_product_attention(query, *every, attn_mask=mask)))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


class Llama(nn.Module):
    """One step: the token at a position, and the keys and values of those before it."""

    def __init__(self, words, length, width, heads, groups, layers):
        super().__init__()
        self.length, self.groups, self.size = length, groups, width // heads
        self.words, self.norm = nn.Embedding(words, width), nn.RMSNorm(width, 1e-6)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, groups) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        rates = 1 / 10000 ** (torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(length), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, token, position, *caches):
        x = self.words(token)
        cos, sin = self.cos[position], self.sin[position]
        mask = (torch.arange(self.length) <= position)[None, None, None, :]
        written = []
        for layer, keys, values in zip(self.layers, caches[0::2], caches[1::2]):
            x, keys, values = layer(x, cos, sin, position, mask, keys, values)
            written += [keys, values]
        return self.head(self.norm(x)), *written

    def empty_caches(self):
        return [torch.zeros(1, self.groups, self.length, self.size) for _ in range(2 * len(self.layers))]


class Swin(nn.Module):
    def __init__(self, width, heads, window):
        super().__init__()
        block = torchvision.models.swin_transformer.SwinTransformerBlock
        self.patches, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(block(width, heads, [window] * 2, [shift] * 2) for shift in (0, window // 2)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image):
        x = self.blocks(self.norm(self.patches(image).permute(0, 2, 3, 1)))
        return self.head(self.last(x).mean((1, 2)))


class ConvNext(nn.Module):
    def __init__(self, width):
        super().__init__()
        block = torchvision.models.convnext.CNBlock
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.Sequential(*(block(width, 0.4, 0.0) for _ in range(3)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image):
        return self.head(self.last(self.blocks(self.patches(image)).mean((2, 3))))


def make_images(count, side):
    """Noise of several grains, with a contrast of its own for each image."""
    images = torch.zeros(count, 3, side, side)
    for parts, weight in ((16, 0.6), (8, 0.5), (4, 0.4), (1, 0.3)):
        noise = torch.randn(count, 3, max(side // (2 * parts), 1), max(side // (2 * parts), 1))
        images += weight * F.interpolate(noise, size=side, mode="bilinear")
    return images * (0.5 + torch.rand(count, 1, 1, 1))


def make_words(count, words, tokens):
    ids = torch.randint(0, words, (count, tokens))
    mask = (torch.arange(tokens)[None] < torch.randint(tokens // 2, tokens + 1, (count, 1))).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def make_steps(model, sequences, words):
    """Eight steps of each sequence, from the first to the last place of the cache."""
    kept, places = [], {round(i * (model.length - 1) / 7) for i in range(8)}
    for _ in range(sequences):
        caches = model.empty_caches()
        for place in range(model.length):
            inputs = [torch.randint(0, words, (1, 1)), torch.tensor([place]), *caches]
            with torch.no_grad():
                caches = list(model(*inputs)[1:])
            if place in places:
                kept.append(inputs)
    names = ["token", "position"] + [f"{kind}{i}" for i in range(len(model.layers)) for kind in ("keys", "values")]
    return {name: torch.cat([step[i] for step in kept]) for i, name in enumerate(names)}


def make(name, small):
    """The model, and a function that makes samples: names of inputs to tensors, an axis of samples first."""
    torch.manual_seed(SEED)
    if name == "vit":
        side, patch, layers, heads, width = (32, 8, 2, 2, 32) if small else (224, 16, 12, 3, 192)
        model = torchvision.models.VisionTransformer(side, patch, layers, heads, width, 4 * width, num_classes=10)
        return model, lambda count: {"image": make_images(count, side)}
    if name == "bert":
        words, tokens, width, heads, layers = (200, 16, 32, 2, 2) if small else (30522, 128, 128, 2, 2)
        return Bert(words, tokens, width, heads, layers), lambda count: make_words(count, words, tokens)
    if name == "whisper":
        bands, frames, width, heads, layers = (16, 40, 32, 2, 2) if small else (80, 600, 384, 6, 4)
        return (Whisper(bands, frames, width, heads, layers),
                lambda count: {"mel": F.avg_pool1d(torch.randn(count, bands, frames + 2), 3, 1) * 1.5})
    if name == "llama":
        words, length, width, heads, groups, layers = (100, 16, 32, 4, 2, 2) if small else (1000, 64, 256, 8, 4, 4)
        model = Llama(words, length, width, heads, groups, layers)
        return model, lambda count: make_steps(model, count // 8, words)
    if name == "swin":
        width, heads, window, side = (24, 3, 4, 32) if small else (96, 3, 7, 224)
        return Swin(width, heads, window), lambda count: {"image": make_images(count, side)}
    width, side = (24, 32) if small else (96, 224)
    return ConvNext(width), lambda count: {"image": make_images(count, side)}


def one(samples, i):
    """Sample i, with an axis of one sample; a position has no axis of samples."""
    return {name: array[i:i + 1] for name, array in samples.items()}


def run(path, samples):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    rows = [session.run(names, one(samples, i)) for i in range(len(next(iter(samples.values()))))]
    return {name: np.concatenate([row[k] for row in rows]) for k, name in enumerate(names)}


class Samples(quantization.CalibrationDataReader):
    def __init__(self, samples):
        self.rows = iter([one(samples, i) for i in range(len(next(iter(samples.values()))))])

    def get_next(self):
        return next(self.rows, None)


def write(name, folder, small, calibration, test):
    model, make_samples = make(name, small)
    scale_as_trained(model)
    sets = {kind: {key: value.numpy() for key, value in make_samples(count).items()}
            for kind, count in (("calibration", calibration), ("test", test))}
    inputs = one(sets["calibration"], 0)
    outputs = ["logits"] + [f"new_{key}" for key in list(inputs)[2:]] if name == "llama" else None
    path = folder / f"{name}.onnx"
    torch.onnx.export(model, tuple(torch.from_numpy(x) for x in inputs.values()), path, input_names=list(inputs),
                      output_names=outputs, external_data=False, verbose=False)
    for kind, samples in sets.items():
        np.savez(folder / f"{name}_{kind}.npz", **samples)
    np.savez(folder / f"{name}_float.npz", **run(path, sets["test"]))
    with tempfile.TemporaryDirectory() as place:
        quantized = Path(place) / "qdq.onnx"
        quantization.quantize_static(path, quantized, Samples(sets["calibration"]), per_channel=True)
        np.savez(folder / f"{name}_qdq.npz", **run(quantized, sets["test"]))


def main():
    names = ("vit", "bert", "whisper", "llama", "swin", "convnext")
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--calibration", type=int, default=16)
    parser.add_argument("--test", type=int, default=16)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for name in arguments.only:
        write(name, arguments.out, arguments.small, arguments.calibration, arguments.test)
        print(name, flush=True)


if __name__ == "__main__":
    main()
