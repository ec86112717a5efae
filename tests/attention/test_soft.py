"""Tests of the configuration of soft attention."""

import pytest
import torch

from regard.attention.base import Memory
from regard.attention.soft import SoftAttention, SoftAttentionConfig
from regard.config import from_dict
from regard.errors import ConfigError
from regard.functional import fusedmax


def test_fusion_strength_applies_to_fusedmax_only() -> None:
    mechanism = SoftAttention(
        SoftAttentionConfig(normalizer="fusedmax", fusedmax_strength=0.4, score_function="dot"), 6, 6
    )
    memory = mechanism.prepare(Memory(torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool)))
    query = torch.randn(2, 6)
    found = mechanism.read(query, memory, mechanism.start(memory)).weights[:, 0]
    scores = (memory.states @ query.unsqueeze(2))[..., 0]
    torch.testing.assert_close(found, fusedmax(scores, 0.4))
    assert not torch.allclose(found, fusedmax(scores))
    with pytest.raises(ConfigError, match=r"fusedmax_strength = 0.4 requires normalizer = 'fusedmax'"):
        from_dict(SoftAttentionConfig, {"normalizer": "sparsemax", "fusedmax_strength": 0.4})
