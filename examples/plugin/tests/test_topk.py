"""The laws of the attention interface hold for top-k attention, and it keeps k positions."""

import torch
from regard_topk.attention import TopKAttention, TopKAttentionConfig

from regard.testing import check_attention, example_memory, example_queries, read_step_by_step


def test_topk_attention_follows_the_interface() -> None:
    check_attention(TopKAttentionConfig(k=2))


def test_at_most_k_positions_have_attention() -> None:
    torch.manual_seed(1)
    mechanism = TopKAttention(TopKAttentionConfig(k=2), 6, 6).double()
    step = read_step_by_step(mechanism, mechanism.prepare(example_memory()), example_queries())
    assert (step.weights > 0).sum(-1).max() == 2
