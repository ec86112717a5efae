"""Replacement of unknown tokens by source words through the attention.

Luong et al. (2015), Section 4, after Jean et al. (2015): each unknown token is replaced by the source word
with the highest attention at the time step that generated it.
"""

from collections.abc import Sequence

from regard.data.links import Links
from regard.data.text import TextProcessor

__all__ = ["replace_unk_tokens"]


def replace_unk_tokens(
    unknown: Sequence[bool],
    tokens: Sequence[str],
    links: Links,
    source_tokens: Sequence[str],
    text: TextProcessor,
) -> list[str]:
    """Return the tokens of a translation with unknown tokens replaced by source words.

    Args:
        unknown: Which tokens to replace. Tokens without a link are kept.
        tokens: Tokens of the translation.
        links: Source word of each token, both counted from 0; see `regard.generation.linking`.
        source_tokens: Source tokens.
        text: Text processing of both sides.
    """
    word_ids = text.source.word_ids(source_tokens)
    words = {token: word for word, token in links}
    written: list[str] = []
    for position, (token, replaced) in enumerate(zip(tokens, unknown, strict=True)):
        word = words.get(position) if replaced else None
        if word is None:
            written.append(token)
            continue
        subwords = [
            subword for subword, number in zip(source_tokens, word_ids, strict=True) if number == word
        ]
        # Encode with the target tokenizer, so that the word detokenizes correctly in its context.
        written += text.target.tokenizer.encode(text.source.tokenizer.decode(subwords))
    return written
