"""Tests of the example of Malaviya et al. (2018), Figure 1: three words, unit fertilities, three rounds.

The paper plots the values without numbers. The four-digit values below were computed by bisection of its
definitions.
"""

import pytest
import torch

from regard.functional import (
    constrained_softmax_scan,
    constrained_sparsemax_scan,
    softmax,
    sparsemax,
)
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
SCORES = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=DOUBLE)
ROUNDS = {
    "softmax": [[0.5217, 0.3497, 0.1286], [0.3610, 0.4409, 0.1981], [0.1820, 0.2714, 0.5466]],
    "sparsemax": [[0.7, 0.3, 0], [0.4, 0.6, 0], [0, 0.15, 0.85]],
    # After two rounds, 0.673246 of the last word's fertility is left.
    "constrained_softmax": [[0.5217, 0.3497, 0.1286], [0.3610, 0.4409, 0.1981], [0.1173, 0.2094, 0.6732]],
    "constrained_sparsemax": [[0.7, 0.3, 0], [0.3, 0.7, 0], [0, 0, 1]],
}
CUMULATIVE = {
    "softmax": [1.0646, 1.0620, 0.8734],
    "sparsemax": [1.10, 1.05, 0.85],
    "constrained_softmax": [1.0, 1.0, 1.0],
    "constrained_sparsemax": [1.0, 1.0, 1.0],
}
FREE = {"softmax": softmax, "sparsemax": sparsemax}
SCAN = {"constrained_softmax": constrained_softmax_scan, "constrained_sparsemax": constrained_sparsemax_scan}

versions = pytest.mark.parametrize("version", ["reference", "auto"])


def rounds(name: str) -> torch.Tensor:
    return FREE[name](SCORES) if name in FREE else SCAN[name](SCORES, torch.ones(3, dtype=DOUBLE))


def close(found: torch.Tensor, printed: list) -> None:
    torch.testing.assert_close(found, torch.tensor(printed, dtype=DOUBLE), atol=5e-5, rtol=0)


@versions
@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_and_their_sum_match_the_figure(name, version) -> None:
    with use_backend(version):
        found = rounds(name)
    close(found, ROUNDS[name])
    close(found.sum(0), CUMULATIVE[name])
    assert ((found == 0) == (torch.tensor(ROUNDS[name]) == 0)).all()
