"""Attention mechanisms with a common interface, which `regard.attention.base` defines.

Importing this package imports all its modules, so that every built-in mechanism registers itself.
"""

from regard.attention.base import Attention, AttentionStep, Memory, State
from regard.attention.registry import AttentionConfig, build_attention, register_attention
from regard.attention.soft import SoftAttention, SoftAttentionConfig
from regard.registry import import_submodules

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionStep",
    "Memory",
    "SoftAttention",
    "SoftAttentionConfig",
    "State",
    "build_attention",
    "register_attention",
]

import_submodules(__name__)
