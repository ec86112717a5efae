"""Compile a BERT with sparse attention, in a subprocess without shape checks.

The runtime shape checks would slow the compiler down. The script prints the number of values and gradients
that equal those of eager execution.
"""

import torch
from test_attention_functions import build

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 0, 0]])


def main() -> None:
    model = build("bert", "sparsemax")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    results = []
    for one in (model, compiled):
        model.zero_grad()
        states = one(IDS, attention_mask=(IDS != 0).long())[0]
        states.square().sum().backward()
        # Compiled code returns zeros for unused parameters.
        results.append((states, *(p.grad if p.grad is not None else 0 * p for p in model.parameters())))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    print(f"{len(results[0])} equal tensors")


main()
