"""The registry of tokenizers, each with its configuration class (`register_tokenizer`)."""

from typing import Annotated

from regard.data.tokenizers.base import Tokenizer
from regard.registry import PartConfig, Registry, subclass_of

__all__ = ["TOKENIZERS", "TokenizerConfig", "register_tokenizer"]

TOKENIZERS: Registry[type[Tokenizer]] = Registry(
    "tokenizer", default="words", packages=["regard.data.tokenizers"], contract=subclass_of(Tokenizer)
)
register_tokenizer = TOKENIZERS.register

TokenizerConfig = Annotated[PartConfig, TOKENIZERS]
