"""Attention mechanisms with a common interface, which `regard.attention.base` defines."""

from regard.attention.base import Attention, AttentionStep, Memory, State
from regard.attention.registry import AttentionConfig, build_attention, register_attention
from regard.attention.scored import ScoredAttention
from regard.attention.soft import SoftAttention, SoftAttentionConfig

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionStep",
    "Memory",
    "ScoredAttention",
    "SoftAttention",
    "SoftAttentionConfig",
    "State",
    "build_attention",
    "register_attention",
]
