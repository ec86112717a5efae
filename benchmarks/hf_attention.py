"""Time of sparse attention in a BERT-type encoder, forward and backward, relative to the library's softmax.

    OMP_NUM_THREADS=2 python benchmarks/hf_attention.py [--layers 12] [--rounds 15] [--json FILE]

Measures `attn_implementation = "eager"` and the transformations that `import regard.hf` registers, in
training mode with the library's default dropout: in the whole encoder (queries [16, 12, 128, 64]), and the
attention function alone. All systems alternate within each round, in one process. The table has the median
time in milliseconds and the median ratio to `eager` of the same round.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.bert.modeling_bert import eager_attention_forward

import regard.hf

BATCH, HEADS, LENGTH, HEAD_SIZE = 16, 12, 128, 64
NAMES = ("eager", "sdpa", "sparsemax", "entmax15", "constrained_sparsemax")
DROPOUT = 0.1


def attention_step(name: str) -> Callable[[], object]:
    """Return a function that computes attention alone, forward and backward."""
    shape = BATCH, HEADS, LENGTH, HEAD_SIZE
    operands = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    mask = torch.ones(BATCH, 1, LENGTH, LENGTH, dtype=torch.bool)
    mask[: BATCH // 2, :, :, LENGTH // 2 :] = False
    eager_mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    module = torch.nn.Identity()
    upstream = torch.randn(BATCH, LENGTH, HEADS, HEAD_SIZE)
    forward: Any = eager_attention_forward if name == "eager" else transformers.AttentionInterface()[name]

    def step() -> None:
        contexts, _ = forward(
            module,
            *operands,
            eager_mask if name == "eager" else mask,
            scaling=HEAD_SIZE**-0.5,
            dropout=DROPOUT,
        )
        torch.autograd.grad(contexts, operands, upstream)

    return step


def encoder_step(name: str, layers: int) -> Callable[[], object]:
    """Return a function that computes the states of a BERT-type encoder and their gradient."""
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=HEADS * HEAD_SIZE,
        num_attention_heads=HEADS,
        num_hidden_layers=layers,
        intermediate_size=4 * HEADS * HEAD_SIZE,
        attn_implementation=name,
    )
    model = transformers.BertModel(config, add_pooling_layer=False).train()
    ids = torch.randint(1000, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[: BATCH // 2, LENGTH // 2 :] = 0
    parameters = list(model.parameters())

    def step() -> None:
        states = model(ids, attention_mask=mask).last_hidden_state
        torch.autograd.grad(states.square().mean(), parameters, allow_unused=True)

    return step


def measure(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the median milliseconds of each system, and the median ratio to `eager` of the same round."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 2):
        for name, step in steps.items():
            bounded = name.startswith("constrained")
            started = time.perf_counter()
            with regard.hf.attention_bounds(upper=0.2) if bounded else nullcontext():
                step()
            if number >= 2:  # warm-up
                seconds[name].append(time.perf_counter() - started)
    found = {}
    for name, times in seconds.items():
        ratios = (one / other for one, other in zip(times, seconds["eager"], strict=True))
        found[name] = 1000 * statistics.median(times), statistics.median(ratios)
    return found


def main() -> None:
    """Measure, print a table and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2, help="number of encoder layers")
    parser.add_argument("--rounds", type=int, default=15, help="number of measured rounds")
    parser.add_argument("--json", type=Path, help="output file")
    options = parser.parse_args()
    torch.manual_seed(0)
    found = {
        "encoder": measure({name: encoder_step(name, options.layers) for name in NAMES}, options.rounds),
        "attention": measure({name: attention_step(name) for name in NAMES}, options.rounds),
    }
    print(f"{torch.get_num_threads()} threads, {options.layers} layers, [16, 12, 128, 64]")
    print(f"{'system':24}{'encoder ms':>12}{'ratio':>8}{'attention ms':>14}{'ratio':>8}")
    for name in NAMES:
        (whole, whole_ratio), (alone, alone_ratio) = found["encoder"][name], found["attention"][name]
        print(f"{name:24}{whole:12.1f}{whole_ratio:8.2f}{alone:14.1f}{alone_ratio:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
