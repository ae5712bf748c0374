#!/usr/bin/env python3
"""Writes the golden files next to itself: what PyTorch computes for small random cases.

    python3 tests/golden/make.py        needs PyTorch (1.13 or 2.x) and nothing else

Everything is computed in float64 from weights and inputs that float32 holds exactly, and stored as float32:
the reference has no rounding error worth mentioning of its own. Each file holds

    weight/NAME           the weights, under eigenformer's names
    input/NAME            the inputs: sequences, lengths, masks (true = may attend, the opposite of PyTorch's)
    output, seed          the output, and the derivative of the loss by it: loss = sum(output * seed)
    gradient/weight/NAME, gradient/input/NAME

Rows past a sequence's length have output and seed zero. `trajectory` describes its own contents below.
Letters: B batch, N tokens, M memory (source) tokens, D width, F hidden width, H heads, V vocabulary, L layers.
"""
import json
import math
import pathlib
import struct
import zlib

import torch
from torch import nn

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

def save(case, metadata, tensors):
    """Writes case.safetensors: the wider types first, so that every tensor is aligned."""
    formats = {torch.int64: ("I64", "q"), torch.float32: ("F32", "f"), torch.bool: ("BOOL", "?")}
    tensors = {name: t.detach().float() if t.is_floating_point() else t for name, t in tensors.items()}
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


def randomized(module):
    """Nothing symmetric, nothing zero: norm weights around 1, biases around 0, matrices scaled by their fan-in."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            noise = torch.randn(parameter.shape)
            if parameter.dim() == 2:
                noise /= math.sqrt(parameter.shape[1])
            else:
                noise = 0.2 * noise + (1.0 if isinstance(part, nn.LayerNorm) and name == "weight" else 0.0)
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
    trajectory()


if __name__ == "__main__":
    main()
