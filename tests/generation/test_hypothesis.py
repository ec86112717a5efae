"""Tests of the trace of a search: backtracking of paths, and release of memory."""

import numpy as np
import pytest
import torch

from regard.generation.hypothesis import SearchTrace

STEPS, ROWS = 30, 6


def record_search(forget_every: int | None) -> tuple[SearchTrace, list[list[int]]]:
    """Record a search in which each row continues one of the first two; return the trace and lineages."""
    generator = torch.Generator().manual_seed(1)
    trace = SearchTrace()
    lineages = [[row] for row in range(ROWS)]
    for step in range(STEPS):
        at = torch.arange(ROWS, dtype=torch.float32)
        trace.add_attention(((100 * step + at).view(-1, 1, 1).expand(-1, 2, 3),))
        if step == STEPS - 1:
            break
        parents = torch.randint(0, 2, (ROWS,), generator=generator)
        trace.add_step(parents, 5 + torch.arange(ROWS), -torch.arange(ROWS, dtype=torch.float32))
        lineages = [[*lineages[parent], row] for row, parent in enumerate(parents.tolist())]
        if forget_every and (step + 1) % forget_every == 0:
            trace.release_unused(torch.tensor([3]), torch.tensor([5]))
    return trace, lineages


@pytest.mark.parametrize("forget_every", [None, 1, 7])
def test_path_follows_its_parents(forget_every):
    trace, lineages = record_search(forget_every)
    steps = np.array([*[STEPS - 1] * ROWS, 3])
    rows = np.array([*range(ROWS), 5])
    paths = trace.backtrace(steps, rows, np.full(ROWS + 1, -9.0), np.full(ROWS + 1, 2))
    for path, lineage in zip(paths, lineages, strict=False):
        assert list(path.tokens) == [5 + row for row in lineage[1:]]
        assert list(path.token_log_probs) == [*(-row for row in lineage[1:]), -9.0]
        assert path.attention[0].shape == (STEPS, 2, 2)
        assert path.attention[0][:, 0, 0].tolist() == [100 * t + row for t, row in enumerate(lineage)]
    early = paths[-1]
    assert len(early.tokens) == 3
    assert early.attention[0][-1, 0, 0] == 305


def test_rows_without_surviving_hypotheses_are_released():
    trace, _ = record_search(forget_every=10)
    kept = [len(weights[0]) for weights in trace._weights]
    # Both rows that were continued at a step may be alive; row 5 of step 3 is finished and stays.
    assert max(kept[:3]) <= 3
    assert kept[3] <= 3
    assert max(kept[4:19]) <= 2
    assert kept[20:] == [ROWS] * 10
