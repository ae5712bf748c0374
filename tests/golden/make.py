#!/usr/bin/env python3
"""Writes the golden files next to itself: what PyTorch computes for small random cases.

    python3 tests/golden/make.py        needs PyTorch (1.13 or 2.x) and nothing else

Everything is computed in float64 from weights and inputs that float32 holds exactly, and stored as float32:
the reference has no rounding error worth mentioning of its own. Each file holds

    weight/NAME           the weights, under eigenformer's names
    input/NAME            the inputs: sequences, lengths, masks (true = may attend, the opposite of PyTorch's)
    output, seed          the output, and the derivative of the loss by it: loss = sum(output * seed)
    gradient/weight/NAME, gradient/input/NAME

Rows past a sequence's length have output and seed zero. `trajectory` and `rotary_tables` describe their own contents below.
Letters: B batch, N tokens, M memory (source) tokens, D width, F hidden width, H heads, K key heads, E head width, V vocabulary,
L layers.
"""
import json
import math
import pathlib
import struct
import types
import zlib

import torch
from torch import nn
from torch.nn import functional

# What eigenformer calls the parts of PyTorch's modules; other parts have the same name in both.
NAMES = {
    nn.MultiheadAttention: {"out_proj": "output"},
    nn.TransformerEncoderLayer: {
        "self_attn": "attention", "norm1": "attention_residual.norm",
        "linear1": "feed_forward.up", "linear2": "feed_forward.down", "norm2": "feed_forward_residual.norm"},
    nn.TransformerDecoderLayer: {
        "self_attn": "self_attention", "norm1": "self_attention_residual.norm",
        "multihead_attn": "cross_attention", "norm2": "cross_attention_residual.norm",
        "linear1": "feed_forward.up", "linear2": "feed_forward.down", "norm3": "feed_forward_residual.norm"},
    nn.TransformerEncoder: {"layers": "blocks"},
    nn.TransformerDecoder: {"layers": "blocks"},
}


# ---- files -----------------------------------------------------------------------------------------------------

def save(case, metadata, tensors, real=torch.float32):
    """Writes case.safetensors: the wider types first, so that every tensor is aligned."""
    formats = {torch.int64: ("I64", "q"), torch.float64: ("F64", "d"), torch.float32: ("F32", "f"), torch.bool: ("BOOL", "?")}
    tensors = {name: t.detach().to(real) if t.is_floating_point() else t for name, t in tensors.items()}
    header, data = {"__metadata__": {key: str(value) for key, value in metadata.items()}}, b""
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        assert torch.isfinite(t).all(), f"{case}: {name} is not finite"
        dtype, code = formats[t.dtype]
        start, data = len(data), data + struct.pack(f"<{t.numel()}{code}", *t.flatten().tolist())
        header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(__file__).parent / f"{case}.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def named(module, pick, prefix=""):
    """(name, tensor) of each weight, under eigenformer's names; pick(parameter) is the tensor that is wanted."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.startswith("in_proj_"):  # PyTorch stacks the three projections
            kind = name[len("in_proj_"):]
            for part, rows in zip(("query", "key", "value"), pick(parameter).chunk(3)):
                yield f"{prefix}{part}.{kind}", rows
        else:
            yield prefix + name, pick(parameter)
    names = NAMES.get(type(module), {})
    for name, child in module.named_children():
        yield from named(child, pick, f"{prefix}{names.get(name, name)}.")


def weights(module):
    return {name: t.detach().clone() for name, t in named(module, lambda parameter: parameter)}


def gradient(t):
    """A key bias adds the same to all scores of a row, which changes nothing: its gradient is zero, not noise."""
    return torch.where(t.grad.abs() < 1e-13, torch.zeros_like(t), t.grad)


def under(prefix, tensors):
    return {f"{prefix}/{name}": t for name, t in tensors.items()}


# ---- random numbers --------------------------------------------------------------------------------------------

def begin(case):
    """Each case has its own random stream: adding one leaves the others as they are."""
    torch.manual_seed(zlib.crc32(case.encode()))


def exact(t):
    return t.float().double()


def random(*shape):
    return exact(torch.randn(*shape))


def centre(part, name):
    return 1.0 if isinstance(part, nn.LayerNorm) and name == "weight" else getattr(part, "centres", {}).get(name, 0.0)


def randomized(module):
    """Nothing symmetric, nothing zero: norm weights around 1, biases around 0, matrices scaled by their fan-in."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            noise = torch.randn(parameter.shape)
            if parameter.dim() == 2:
                noise /= math.sqrt(parameter.shape[1])
            else:
                noise = 0.2 * noise + centre(part, name)
            parameter.data = exact(noise)
    return module


# ---- masks -----------------------------------------------------------------------------------------------------

def inside(lengths, size):
    """(B, size): true up to each sequence's length."""
    return torch.arange(size) < lengths[:, None]


def past(lengths, size):
    """PyTorch's key padding mask, or none."""
    return None if lengths is None else ~inside(lengths, size)


def future(size):
    """PyTorch's causal mask."""
    return torch.ones(size, size, dtype=torch.bool).triu(1)


# ---- cases -----------------------------------------------------------------------------------------------------

def record(case, metadata, module, inputs, forward):
    """Runs forward(**inputs) and its derivative; saves all."""
    for t in inputs.values():
        t.requires_grad_(t.is_floating_point())
    output = forward(**inputs)
    seed = random(*output.shape)
    if "lengths" in inputs:
        rows = inside(inputs["lengths"], output.shape[1])[..., None]
        output, seed = output * rows, seed * rows
    (output * seed).sum().backward()
    save(case, metadata, {
        **under("weight", weights(module)), **under("input", inputs), "output": output, "seed": seed,
        **under("gradient/weight", dict(named(module, gradient))),
        **under("gradient/input", {name: gradient(t) for name, t in inputs.items() if t.requires_grad})})


def layer_norm(B=3, N=5, D=20):
    begin("layer_norm")
    module = randomized(nn.LayerNorm(D))
    x = exact(3 * random(B, N, D) + random(B, N, 1))
    record("layer_norm", {"kind": "layer_norm", "width": D, "epsilon": module.eps}, module, {"x": x},
           lambda x: module(x))


def attention(case, inputs, N, D=18, H=3, causal=False):
    """inputs: name to function that draws it, from the random stream of this case."""
    case = f"attention_{case}"
    begin(case)
    module = randomized(nn.MultiheadAttention(D, H, batch_first=True))

    def forward(x, memory=None, lengths=None, memory_lengths=None, mask=None):
        keys = x if memory is None else memory
        padding = past(lengths if memory is None else memory_lengths, keys.shape[1])
        hidden = future(N) if causal else None
        empty = torch.zeros(N, 1, dtype=torch.bool)
        if mask is not None:
            # PyTorch gives NaN for a row that may attend to nothing. Here its attention is zero, which leaves the
            # output's bias: let the row attend to all instead, and replace what comes out.
            empty = ~mask.any(-1, keepdim=True)
            hidden = ~(mask | empty)
            hidden = hidden.repeat_interleave(H, 0) if hidden.dim() == 3 else hidden
        output, _ = module(x, keys, keys, key_padding_mask=padding, attn_mask=hidden, need_weights=False)
        return torch.where(empty, module.out_proj.bias, output)

    inputs = {name: draw() for name, draw in inputs.items()}
    record(case, {"kind": "attention", "width": D, "heads": H, "causal": int(causal)}, module, inputs, forward)


def attentions(B=3, N=6, M=9, D=18):
    def x():
        return random(B, N, D)

    def memory():
        return random(B, M, D)

    def mask():  # (N, N), each row with something
        return (torch.rand(N, N) < 0.5) | torch.eye(N, dtype=torch.bool)

    def batch_mask():  # (B, N, M), one row with nothing
        mask = (torch.rand(B, N, M) < 0.5) | (torch.arange(M) == torch.arange(N)[:, None])
        mask[1, 2] = False
        return mask

    attention("self", {"x": x}, N)
    attention("causal", {"x": x}, N, causal=True)
    attention("lengths", {"x": x, "lengths": lambda: torch.tensor([4, 6, 1])}, N)
    attention("mask", {"x": x, "mask": mask}, N)
    attention("cross", {"x": x, "memory": memory, "memory_lengths": lambda: torch.tensor([9, 2, 5])}, N)
    attention("empty_row", {"x": x, "memory": memory, "mask": batch_mask}, N)


def encoder_block(norm, padded, B=3, N=7, D=18, F=32, H=2):
    case = f"encoder_block_{norm}" + ("_lengths" if padded else "")
    begin(case)
    module = randomized(nn.TransformerEncoderLayer(D, H, F, dropout=0.0, batch_first=True, norm_first=norm == "pre"))
    inputs = {"x": random(B, N, D)}
    if padded:
        inputs["lengths"] = torch.tensor([3, 7, 5])

    def forward(x, lengths=None):
        return module(x, src_key_padding_mask=past(lengths, N))

    record(case, {"kind": "encoder_block", "norm": norm, "width": D, "hidden": F, "heads": H}, module, inputs, forward)


def decoder_block(norm, B=2, N=5, M=8, D=18, F=32, H=2):
    case = f"decoder_block_{norm}"
    begin(case)
    module = randomized(nn.TransformerDecoderLayer(D, H, F, dropout=0.0, batch_first=True, norm_first=norm == "pre"))
    inputs = {"x": random(B, N, D), "memory": random(B, M, D), "memory_lengths": torch.tensor([8, 3])}

    def forward(x, memory, memory_lengths):
        return module(x, memory, tgt_mask=future(N), memory_key_padding_mask=past(memory_lengths, M))

    record(case, {"kind": "decoder_block", "norm": norm, "width": D, "hidden": F, "heads": H, "causal": 1},
           module, inputs, forward)


def transformer(norm, B=3, N=5, M=7, D=12, F=32, H=3, L=2):
    case = f"transformer_{norm}"
    begin(case)
    module = randomized(nn.Transformer(D, H, L, L, F, dropout=0.0, batch_first=True, norm_first=norm == "pre"))
    inputs = {"source": random(B, M, D), "target": random(B, N, D), "source_lengths": torch.tensor([7, 4, 2])}

    def forward(source, target, source_lengths):
        padding = past(source_lengths, M)
        return module(source, target, tgt_mask=future(N), src_key_padding_mask=padding,
                      memory_key_padding_mask=padding)

    record(case, {"kind": "transformer", "norm": norm, "width": D, "hidden": F, "heads": H, "layers": L, "causal": 1},
           module, inputs, forward)


# ---- parts that PyTorch has not, under eigenformer's names -------------------------------------------------------------------

def vector(size):
    return nn.Parameter(torch.empty(size))


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + ε) ∘ (offset + weight)"""

    def __init__(self, D, eps, offset=0.0):
        super().__init__()
        self.weight, self.eps, self.offset, self.centres = vector(D), eps, offset, {"weight": 1.0 - offset}

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * (self.offset + self.weight)


class ScaleNorm(nn.Module):
    """g·x / |x|"""
    centres = {"weight": 1.0}

    def __init__(self, D):
        super().__init__()
        self.weight = vector(1)

    def forward(self, x):
        return self.weight * x / x.norm(dim=-1, keepdim=True)


class DynamicTanh(nn.Module):
    """tanh(α·x) ∘ weight + bias"""
    centres = {"alpha": 1.0, "weight": 1.0}

    def __init__(self, D):
        super().__init__()
        self.alpha, self.weight, self.bias = vector(1), vector(D), vector(D)

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


def frequencies(R, base=10000.0):
    return base ** (-torch.arange(0, R, 2).double() / R)


def turn(x, angles, interleaved):
    """Pair i of the first elements of each head (…, N, E) as a complex number times exp(i·angle), angles (N, R/2)."""
    R = 2 * angles.shape[-1]
    head, rest = x[..., :R], x[..., R:]
    real, imaginary = (head[..., 0::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
    if interleaved:
        return torch.cat((torch.view_as_real(turned).flatten(-2), rest), -1)
    return torch.cat((turned.real, turned.imag, rest), -1)


def alibi_slopes(H):
    """A geometric sequence of 2^(−8/H) for a power of 2; else that of the next smaller one, then every other of the next larger."""
    if math.log2(H).is_integer():
        return [2.0 ** (-8.0 * (h + 1) / H) for h in range(H)]
    power = 2 ** math.floor(math.log2(H))
    return alibi_slopes(power) + alibi_slopes(2 * power)[0::2][:H - power]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.E = c, c.head_width or c.width // c.heads
        self.K = c.kv_heads or c.heads
        self.query = nn.Linear(c.width, c.heads * self.E, bias=c.attention_bias)
        self.key = nn.Linear(c.width, self.K * self.E, bias=c.attention_bias)
        self.value = nn.Linear(c.width, self.K * self.E, bias=c.attention_bias)
        self.output = nn.Linear(c.heads * self.E, c.width, bias=c.output_bias)
        if c.qk_norm:
            self.heads = nn.ModuleDict({"query_norm": RmsNorm(self.E, c.norm_epsilon), "key_norm": RmsNorm(self.E, c.norm_epsilon)})

    def forward(self, x, lengths=None, bias=0.0, memory=None):
        """lengths are those of the keys; bias (H, N, M) is added to the scores."""
        memory = x if memory is None else memory
        c, N, M = self.c, x.shape[1], memory.shape[1]
        distance = torch.arange(M) - torch.arange(N)[:, None]  # key − query
        q, k, v = (part(t).reshape(*t.shape[:2], -1, self.E).transpose(1, 2)
                   for part, t in ((self.query, x), (self.key, memory), (self.value, memory)))
        if c.qk_norm:
            q, k = self.heads["query_norm"](q), self.heads["key_norm"](k)
        if c.rotary:
            angles = torch.arange(N)[:, None] * frequencies(c.rotated or self.E)
            q, k = turn(q, angles, c.interleaved), turn(k, angles, c.interleaved)
        k, v = (t.repeat_interleave(c.heads // self.K, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) * (c.scale or self.E ** -0.5)
        if c.cap:
            scores = c.cap * torch.tanh(scores / c.cap)
        if c.alibi:
            scores = scores - torch.tensor(alibi_slopes(c.heads))[:, None, None] * distance.abs()
        hidden = torch.zeros(N, M, dtype=torch.bool)
        if c.causal:
            hidden = hidden | (distance > 0)
        if c.window:
            hidden = hidden | (distance.abs() >= c.window)
        if lengths is not None and not c.causal:  # causal rows within a length see nothing past it
            hidden = hidden | past(lengths, M)[:, None, None]
        weights = (scores + bias).masked_fill(hidden, -math.inf).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.activation = c.activation
        self.up, self.down = nn.Linear(c.width, c.hidden, c.feed_forward_bias), nn.Linear(c.hidden, c.width, c.feed_forward_bias)

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class GatedMlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.activation = c.activation
        self.gate, self.up = (nn.Linear(c.width, c.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def forward(self, x):
        return self.down(self.activation(self.gate(x)) * self.up(x))


class PreNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = c.norm(c.width)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class DeepNorm(PreNorm):
    """norm(α·x + sublayer(x)): Post-LN if α is 1"""

    def __init__(self, c):
        super().__init__(c)
        self.alpha = c.alpha

    def forward(self, x, sublayer):
        return self.norm(self.alpha * x + sublayer(x))


class Sandwich(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.before, self.after = c.norm(c.width), c.norm(c.width)

    def forward(self, x, sublayer):
        return x + self.after(sublayer(self.before(x)))


class LayerScale(PreNorm):
    def __init__(self, c):
        super().__init__(c)
        self.weight = vector(c.width)

    def forward(self, x, sublayer):
        return x + self.weight * sublayer(self.norm(x))


class ReZero(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = vector(1)

    def forward(self, x, sublayer):
        return x + self.weight * sublayer(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.feed_forward = Attention(c), c.feed_forward(c)
        self.attention_residual, self.feed_forward_residual = c.residual(c), c.residual(c)

    def forward(self, x, lengths=None, bias=0.0):
        x = self.attention_residual(x, lambda z: self.attention(z, lengths, bias))
        return self.feed_forward_residual(x, self.feed_forward)


class CrossBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attention, self.cross_attention = Attention(changed(c, causal=1)), Attention(changed(c, causal=0))
        self.feed_forward = c.feed_forward(c)
        self.self_attention_residual, self.cross_attention_residual, self.feed_forward_residual = (c.residual(c) for _ in range(3))

    def forward(self, x, memory, memory_lengths, bias=0.0):
        x = self.self_attention_residual(x, lambda z: self.self_attention(z, None, bias))
        x = self.cross_attention_residual(x, lambda z: self.cross_attention(z, memory_lengths, memory=memory))
        return self.feed_forward_residual(x, self.feed_forward)


class ParallelBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.attention, self.feed_forward = c.norm(c.width), Attention(c), c.feed_forward(c)

    def forward(self, x, lengths=None):
        z = self.norm(x)
        return x + self.attention(z, lengths) + self.feed_forward(z)


class Stack(nn.Module):
    def __init__(self, c, final_norm):
        super().__init__()
        self.blocks = nn.ModuleList([c.block(changed(c, **c.vary(i))) for i in range(c.layers)])
        self.norm = c.norm(c.width) if final_norm else None

    def forward(self, x, *arguments):
        for block in self.blocks:
            x = block(x, *arguments)
        return self.norm(x) if self.norm else x


class LanguageModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        self.position = nn.Embedding(c.max_positions, c.width) if c.max_positions else None
        self.embedding_norm = c.norm(c.width) if c.embedding_norm else None
        self.decoder = Stack(c, True)
        self.head = None if c.tied else nn.Linear(c.width, c.vocabulary, bias=c.head_bias)

    def forward(self, ids, lengths):
        x = self.embedding(ids)
        if self.c.scaled_embedding:
            x = x * math.sqrt(self.c.width)
        if self.position:
            x = x + self.position.weight[:ids.shape[1]]
        if self.embedding_norm:
            x = self.embedding_norm(x)
        x = self.decoder(x, lengths)
        logits = self.head(x) if self.head else x @ self.embedding.weight.T
        return self.c.logit_cap * torch.tanh(logits / self.c.logit_cap) if self.c.logit_cap else logits


class BertModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.offset = c.offset
        self.embedding, self.type_embedding = nn.Embedding(c.vocabulary, c.width), nn.Embedding(2, c.width)
        self.position = nn.Embedding(c.max_positions + c.offset, c.width)
        self.embedding_norm = c.norm(c.width)
        self.encoder = Stack(c, False)
        self.pooler = nn.Linear(c.width, c.width) if c.pooler else None

    def forward(self, ids, types, lengths):
        positions = self.position.weight[self.offset:self.offset + ids.shape[1]]
        x = self.embedding_norm(self.embedding(ids) + self.type_embedding(types) + positions)
        x = self.encoder(x, lengths)
        return torch.tanh(self.pooler(x[:, :1])) if self.pooler else x


class MaskedModel(nn.Module):
    """With the head of masked language models"""

    def __init__(self, c):
        super().__init__()
        self.bert, self.head = BertModel(c), nn.Module()
        self.head.dense, self.head.norm, self.head.bias = nn.Linear(c.width, c.width), c.norm(c.width), vector(c.vocabulary)

    def forward(self, **inputs):
        x = self.head.norm(functional.gelu(self.head.dense(self.bert(**inputs))))
        return x @ self.bert.embedding.weight.T + self.head.bias


class Relative(nn.Embedding):
    """T5's biases: those of the bucket of the distance."""

    def __init__(self, c):
        super().__init__(c.buckets, c.heads)
        self.c = c

    def bucket(self, distance):
        """of distance = key − query"""
        size, first = self.c.buckets, 0
        if self.c.causal:
            away = max(-distance, 0)
        else:
            size, away = size // 2, abs(distance)
            first = size if distance > 0 else 0
        exact = size // 2  # the first half of the buckets have one distance each, the others grow like a logarithm
        if away < exact:
            return first + away
        far = exact + int(math.log(away / exact) / math.log(self.c.furthest / exact) * (size - exact))
        return first + min(far, size - 1)

    def forward(self, N):
        """(H, N, N)"""
        buckets = torch.tensor([[self.bucket(key - query) for key in range(N)] for query in range(N)])
        return super().forward(buckets).permute(2, 0, 1)


class Biased(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.position = Attention(c), Relative(c)

    def forward(self, x, lengths=None):
        return self.attention(x, lengths, self.position(x.shape[1]))


class T5(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.embedding = c, nn.Embedding(c.vocabulary, c.width)
        self.position, self.target_position = Relative(changed(c, causal=0)), Relative(changed(c, causal=1))
        self.encoder, self.decoder = Stack(c, True), Stack(changed(c, block=CrossBlock), True)
        self.head = None if c.tied else nn.Linear(c.width, c.vocabulary, bias=False)

    def forward(self, ids, target_ids, source_lengths):
        memory = self.encoder(self.embedding(ids), source_lengths, self.position(ids.shape[1]))
        x = self.decoder(self.embedding(target_ids), memory, source_lengths, self.target_position(target_ids.shape[1]))
        return self.head(x) if self.head else self.c.logit_scale * x @ self.embedding.weight.T


class Bart(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        self.position, self.target_position = (nn.Embedding(c.max_positions + 2, c.width) for _ in range(2))
        self.embedding_norm, self.target_embedding_norm = c.norm(c.width), c.norm(c.width)
        self.encoder, self.decoder = Stack(c, False), Stack(changed(c, block=CrossBlock), False)

    def embed(self, ids, position, norm):
        return norm(self.embedding(ids) + position.weight[2:2 + ids.shape[1]])

    def forward(self, ids, target_ids, source_lengths):
        memory = self.encoder(self.embed(ids, self.position, self.embedding_norm), source_lengths)
        x = self.decoder(self.embed(target_ids, self.target_position, self.target_embedding_norm), memory, source_lengths)
        return x @ self.embedding.weight.T


def gelu_tanh(x):
    return functional.gelu(x, approximate="tanh")


def gelu_sigmoid(x):
    return x * torch.sigmoid(1.702 * x)


def squared_relu(x):
    return functional.relu(x).square()


# ---- cases of models ---------------------------------------------------------------------------------------------------------

def rms_norm(eps, offset=0.0):
    return lambda D: RmsNorm(D, eps, offset)


def config(python, numbers):
    """python: what kinds of parts; numbers: what the file's metadata tells the runner, under the names of its configs."""
    eps = numbers.get("norm_epsilon", 1e-5)
    defaults = {
        "width": 24, "hidden": 32, "heads": 4, "kv_heads": 0, "head_width": 0, "attention_bias": 1, "output_bias": 1,
        "feed_forward_bias": 1, "scale": 0.0, "window": 0, "cap": 0.0, "alpha": 1.0, "rotated": 0, "interleaved": 0, "vocabulary": 17, "max_positions": 0,
        "layers": 2, "tied": 1, "head_bias": 0, "scaled_embedding": 0, "embedding_norm": 0, "logit_cap": 0.0,
        "qk_norm": False, "rotary": False, "alibi": False, "causal": 0, "norm_epsilon": eps,
        "norm": lambda D: nn.LayerNorm(D, eps), "residual": PreNorm, "feed_forward": Mlp, "activation": functional.gelu,
        "block": Block, "vary": lambda layer: {}, "pooler": False, "offset": 0}
    return types.SimpleNamespace(**{**defaults, **numbers, **python})


def changed(c, **fields):
    return types.SimpleNamespace(**{**vars(c), **fields})


def language_model(case, kind, numbers, B=2, N=8, **python):
    begin(case)
    c = config(python, {"width": 24, "hidden": 32, "heads": 4, "vocabulary": 17, "layers": 2, **numbers})
    c.causal = 1
    module = randomized(LanguageModel(c))
    inputs = {"ids": torch.randint(c.vocabulary, (B, N)), "lengths": torch.tensor([N, N - 3])}
    record(case, {"kind": kind, **sizes(c), **numbers}, module, inputs, module)


def sizes(c):
    return {name: getattr(c, name) for name in ("width", "hidden", "heads", "vocabulary", "layers")}


def language_models():
    llama = {"kv_heads": 2, "attention_bias": 0, "output_bias": 0, "norm_epsilon": 1e-5, "tied": 0}
    gated = {"rotary": True, "norm": rms_norm(1e-5), "feed_forward": GatedMlp, "activation": functional.silu}
    language_model("gpt2", "gpt2", {"max_positions": 10}, activation=gelu_tanh)
    language_model("llama", "llama", llama, **gated)
    language_model("mistral_window", "llama", {**llama, "window": 3}, **gated)
    language_model("rotary_interleaved", "llama", {**llama, "rotated": 4, "interleaved": 1}, **gated)
    language_model("qwen2", "llama", {**llama, "attention_bias": 1, "tied": 1}, **gated)
    language_model("qwen3", "qwen3", {**llama, "head_width": 8, "tied": 1}, qk_norm=True, **gated)
    language_model("gemma2", "gemma2",
                   {**llama, "head_width": 8, "norm_epsilon": 1e-6, "window": 3, "cap": 5.0, "scale": 0.25, "logit_cap": 3.0,
                    "tied": 1, "scaled_embedding": 1},
                   rotary=True, norm=rms_norm(1e-6, 1.0), residual=Sandwich, feed_forward=GatedMlp, activation=gelu_tanh,
                   vary=lambda layer: {"window": 3 if layer % 2 == 0 else 0})
    language_model("phi2", "phi2", {"heads": 3, "rotated": 4, "tied": 0, "head_bias": 1}, rotary=True, block=ParallelBlock,
                   activation=gelu_tanh)
    language_model("bloom", "bloom", {"heads": 6, "embedding_norm": 1}, alibi=True, activation=gelu_tanh)


def bert(case, numbers, model=BertModel, B=2, N=7, **python):
    begin(case)
    numbers = {"max_positions": 9, "norm_epsilon": 1e-12, **numbers}
    c = config({"residual": DeepNorm, **python}, numbers)
    module = randomized(model(c))
    inputs = {"ids": torch.randint(c.vocabulary, (B, N)), "types": torch.randint(2, (B, N)), "lengths": torch.tensor([4, N])}
    record(case, {"kind": case, **sizes(c), **numbers}, module, inputs, module)


def encoder_decoder(case, model, numbers, B=2, N=6, M=8, **python):
    begin(case)
    c = config({"buckets": 32, "furthest": 128, **python}, {"layers": 1, **numbers})
    module = randomized(model(c))
    inputs = {"ids": torch.randint(c.vocabulary, (B, M)), "target_ids": torch.randint(c.vocabulary, (B, N)),
              "source_lengths": torch.tensor([M, 3])}
    record(case, {"kind": case, **sizes(c), **numbers}, module, inputs, module)


def encoder_decoders():
    plain = {"hidden": 28, "attention_bias": 0, "output_bias": 0, "feed_forward_bias": 0, "scale": 1.0, "norm_epsilon": 1e-6}
    encoder_decoder("t5", T5, {**plain, "head_width": 8, "logit_scale": 24 ** -0.5}, norm=rms_norm(1e-6), activation=functional.relu)
    encoder_decoder("t5v11", T5, {**plain, "tied": 0}, norm=rms_norm(1e-6), feed_forward=GatedMlp, activation=gelu_tanh)
    encoder_decoder("bart", Bart, {"max_positions": 9, "embedding_norm": 1}, residual=DeepNorm)


def relative(case, causal, B=2, N=23, D=12, H=3):
    begin(case)
    numbers = {"width": D, "heads": H, "attention_bias": 0, "output_bias": 0, "scale": 1.0, "causal": causal, "buckets": 8,
               "furthest": 20}
    module = randomized(Biased(config({}, numbers)))
    record(case, {"kind": case, **numbers}, module, {"x": random(B, N, D), "lengths": torch.tensor([N, 9])}, module)


def part(case, make, B=2, N=5, D=20):
    begin(case)
    module = randomized(make(D))
    record(case, {"kind": case, "width": D}, module, {"x": random(B, N, D)}, module)


def block(case, B=2, N=7, **python):
    begin(case)
    numbers = {"width": 18, "hidden": 28, "heads": 3}
    if "alpha" in python:
        numbers["alpha"] = python.pop("alpha")
    module = randomized(Block(config(python, numbers)))
    record(case, {"kind": case, **numbers}, module, {"x": random(B, N, 18), "lengths": torch.tensor([N, 4])}, module)


def parts():
    part("scale_norm", ScaleNorm)
    part("dynamic_tanh", DynamicTanh)
    block("block_layer_scale", residual=LayerScale, activation=squared_relu)
    block("block_deep_norm", residual=DeepNorm, alpha=1.5, feed_forward=GatedMlp)
    block("block_sandwich", residual=Sandwich, norm=ScaleNorm, activation=functional.relu)
    block("block_re_zero", residual=ReZero, activation=gelu_sigmoid)


# ---- rotary tables -----------------------------------------------------------------------------------------------------------

def rotary_tables(N=21, R=16, base=10000.0):
    """NAME/cosine, NAME/sine (N, R/2) of positions 0, 1, … for each way of stretching, in float64."""
    plain, factor, original, S = frequencies(R, base), 4.0, 16, {}
    turns = original * plain / (2 * math.pi)  # of each pair within the original length
    S["linear"] = plain / factor, 1.0
    S["ntk"] = frequencies(R, base * factor ** (R / (R - 2))), 1.0
    S["dynamic_ntk"] = frequencies(R, base * (factor * N / original - (factor - 1)) ** (R / (R - 2))), 1.0

    def yarn(fast, slow, whole):
        first, last = (R * math.log(original / (2 * math.pi * each)) / (2 * math.log(base)) for each in (fast, slow))
        if whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, R - 1)
        interpolated = ((torch.arange(R // 2) - first) / (last - first)).clamp(0, 1)
        return plain / factor * interpolated + plain * (1 - interpolated)

    S["yarn"] = yarn(2.0, 0.01, True), 0.1 * math.log(factor) + 1
    S["yarn_given"] = yarn(2.0, 0.01, False), 1.25

    long = torch.arange(1, R // 2 + 1) * 0.75
    S["long"] = plain / long, math.sqrt(1 + math.log(64 / original) / math.log(original))

    low, high = 0.05, 0.5
    smooth = (turns - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    S["llama3"] = torch.where(turns < low, plain / factor, torch.where(turns > high, plain, between)), 1.0

    tables = {}
    for name, (values, attention_factor) in S.items():
        angles = torch.arange(N)[:, None] * values
        tables[f"{name}/cosine"], tables[f"{name}/sine"] = angles.cos() * attention_factor, angles.sin() * attention_factor
    save("rotary_tables", {"kind": "rotary_tables", "width": R, "tokens": N}, tables, torch.float64)


# ---- training --------------------------------------------------------------------------------------------------

class EncoderDecoder(nn.Module):
    """The paper's model without dropout: Post-LN, no final norms, one table for source, target and output."""

    def __init__(self, V, D, F, H, L):
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True}
        self.embedding = nn.Embedding(V, D)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, F, **options), L)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, H, F, **options), L)

    def embed(self, ids):
        N, D = ids.shape[1], self.embedding.embedding_dim
        angles = torch.arange(N)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        positions = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
        return self.embedding(ids) * math.sqrt(D) + positions

    def forward(self, source, target, source_lengths, target_lengths):
        padding = past(source_lengths, source.shape[1])
        memory = self.encoder(self.embed(source), src_key_padding_mask=padding)
        x = self.decoder(self.embed(target), memory, tgt_mask=future(target.shape[1]),
                         tgt_key_padding_mask=past(target_lengths, target.shape[1]), memory_key_padding_mask=padding)
        return x @ self.embedding.weight.T


def trajectory(S=10, B=4, N=6, V=11, D=16, F=32, H=4, L=2, warm_up=4, smoothing=0.1):
    """Ten steps of learning to reverse a sequence: weight/NAME before, final/NAME after,
    output (S): each step's loss per target token; norms (S): the norm of the whole gradient.
    """
    begin("trajectory")
    pad, start, end = 0, 1, 2
    model = randomized(EncoderDecoder(V, D, F, H, L))
    tensors = under("weight", weights(model))

    lengths = torch.randint(2, N, (S, B))  # of the source; the target has the start or the end in addition
    lengths[:, 0] = N - 1
    source, target_in, target_out = (torch.full((S, B, size), pad) for size in (N - 1, N, N))
    for s in range(S):
        for b in range(B):
            n = int(lengths[s, b])
            ids = torch.randint(end + 1, V, (n,))
            source[s, b, :n] = ids
            target_in[s, b, :n + 1] = torch.cat((torch.tensor([start]), ids.flip(0)))
            target_out[s, b, :n + 1] = torch.cat((ids.flip(0), torch.tensor([end])))

    criterion = nn.CrossEntropyLoss(ignore_index=pad, label_smoothing=smoothing)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses, norms = [], []
    for s in range(S):
        adam.param_groups[0]["lr"] = D ** -0.5 * min((s + 1) ** -0.5, (s + 1) * warm_up ** -1.5)
        adam.zero_grad()
        logits = model(source[s], target_in[s], lengths[s], lengths[s] + 1)
        loss = criterion(logits.flatten(0, 1), target_out[s].flatten())
        loss.backward()
        losses.append(loss.detach())
        norms.append(torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm())
        adam.step()

    save("trajectory", {
        "kind": "trajectory", "norm": "post", "vocabulary": V, "width": D, "hidden": F, "heads": H, "layers": L,
        "steps": S, "warm_up": warm_up, "smoothing": smoothing, "pad": pad, "beta1": 0.9, "beta2": 0.98,
        "epsilon": 1e-9}, {
        **tensors, **under("final", weights(model)), "output": torch.stack(losses), "norms": torch.stack(norms),
        **under("input", {"source": source, "target_in": target_in, "target_out": target_out,
                          "source_lengths": lengths, "target_lengths": lengths + 1})})


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    layer_norm()
    attentions()
    for norm in ("pre", "post"):
        for padded in (False, True):
            encoder_block(norm, padded)
        decoder_block(norm)
        transformer(norm)
    language_models()
    bert("bert", {})
    bert("bert_pooled", {"layers": 1}, pooler=True)
    bert("roberta_masked", {"layers": 1, "norm_epsilon": 1e-5}, MaskedModel, offset=2)
    encoder_decoders()
    relative("relative_both", 0)
    relative("relative_causal", 1)
    parts()
    rotary_tables()
    trajectory()


if __name__ == "__main__":
    main()
