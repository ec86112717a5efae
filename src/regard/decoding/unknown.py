"""Unknown words replaced through the attention: a name the model cannot say is copied from the source.

Luong et al. (2015), Section 4, after Jean et al. (2015): the source word attended to most at the step that
said the unknown word takes its place.
"""

from collections.abc import Sequence

from regard.data.links import Links
from regard.data.text import TextPair

__all__ = ["replace_unknown"]


def replace_unknown(
    unknown: Sequence[bool],
    tokens: Sequence[str],
    links: Links,
    source_tokens: Sequence[str],
    text: TextPair,
) -> list[str]:
    """The tokens of a translation, source words standing for its unknown words.

    Args:
        unknown: Which tokens to replace; one that is linked to nothing stays.
        tokens: The translation.
        links: The source word of each token, both counted from 0; see `regard.decoding.linking`.
        source_tokens: The source tokens.
        text: How both sides are written.
    """
    own = text.source.word_ids(source_tokens)
    words = {token: word for word, token in links}
    written: list[str] = []
    for step, (token, replaced) in enumerate(zip(tokens, unknown, strict=True)):
        word = words.get(step) if replaced else None
        if word is None:
            written.append(token)
            continue
        pieces = [piece for piece, number in zip(source_tokens, own, strict=True) if number == word]
        # In the target side's own pieces, so that they join and detokenise with what stands around them.
        written += text.target.tokenizer.encode(text.source.tokenizer.decode(pieces))
    return written
