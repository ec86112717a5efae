"""Sparse and constrained attention for any Hugging Face model, selected by `attn_implementation`.

Importing this package registers the transformations with transformers:

    import regard.hf
    model = AutoModel.from_pretrained(directory, attn_implementation="sparsemax")
"""

from regard.hf.attention import ATTENTION_NAMES, register_attention_function, register_attention_functions
from regard.hf.bounds import attention_bounds, attention_budget

__all__ = [
    "ATTENTION_NAMES",
    "attention_bounds",
    "attention_budget",
    "register_attention_function",
]

register_attention_functions()
