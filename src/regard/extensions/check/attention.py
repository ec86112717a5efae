"""Attention under forced decoding: source words that received less than expected.

Each time step distributes one unit of attention over the source. Little attention is a weak sign of an
omission: the target words next to the gap may attend to the omitted word, which then receives more attention
than a translated one. `docs/coverage.md` states the precision that was measured. The detector shows the
attention of a model. To find omissions, use `combined` or `contrastive`.

The score of a word is the share of the expected attention that it did not receive:

    score = max(0, 1 - received / expected)

With bounded attention, `expected` is the fertility that the predictor of the model expects, or the budget
from its table. The score is then the share of the budget that is left. Otherwise, every target word counts as
one unit, and every source word is expected to receive one. The rates at which an aligner leaves words
unlinked, as expectations, gave no better results.
"""

from collections.abc import Sequence

import numpy as np

from regard.data.fertility import PredictedFertilityConfig
from regard.data.text import TextSide
from regard.extensions.check.base import (
    CoverageError,
    DetectionInput,
    Detector,
    PairScores,
    register_detector,
)
from regard.extensions.check.text import SideText, WordPair
from regard.generation.base import BaseTranslator
from regard.generation.forced import LineScore
from regard.generation.linking import attention_map
from regard.text.words import is_word
from regard.types import Float, Int

__all__ = ["AttentionDetector", "locate_tokens", "missing_attention"]

_MIN_EXPECTED = 0.05


@register_detector("attention")
class AttentionDetector(Detector):
    """Attention received: omissions from `translator`, additions from `reverse_translator`."""

    name = "attention"
    needs_one_of = ("translator", "reverse_translator")

    def __init__(self, inputs: DetectionInput) -> None:
        """Check that the translators show their attention to given translations."""
        super().__init__(inputs)
        for translator in inputs.translators.values():
            translator.require("attention", f"the detector {self.name!r}")
            translator.require("score", f"the detector {self.name!r}")

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the missing attention of each word, and its mean over the words of the sentence.

        Punctuation marks have a score of 0. An empty translation omits everything, and a translation of
        nothing adds everything.

        Raises:
            UsageError: if a model has no attention to the source.
        """
        sentence: list[dict[CoverageError, float]] = [{} for _ in pairs]
        words: list[dict[CoverageError, np.ndarray]] = [{} for _ in pairs]
        for error, translator in self.inputs.translators.items():
            side = 0 if error == "omission" else 1
            own = [pair.swapped() for pair in pairs] if side else pairs
            missing = missing_attention(translator, own)
            if missing is None:
                name = f"the detector {self.name!r}"
                raise translator.unsupported(name, "use a model with attention to the source")
            for row, scores in enumerate(missing):
                counted = [is_word(word) for word in own[row].source]
                words[row][error] = np.where(counted, scores, 0.0)
                sentence[row][error] = float(scores[counted].mean()) if any(counted) else 0.0
        return [PairScores({**own}, {**each}) for own, each in zip(sentence, words, strict=True)]


def missing_attention(
    translator: BaseTranslator, pairs: Sequence[WordPair]
) -> list[Float[np.ndarray, "S"]] | None:
    """Return for each pair the share of the expected attention that each source word did not receive.

    It is 1 for an empty translation, and 0 for a pair that cannot be scored. The result is None if the model
    has no attention to the source.

    Args:
        translator: A translator from the first to the second side of the pairs.
        pairs: The pairs.
    """
    lines = [(SideText.of(pair, 0), SideText.of(pair, 1)) for pair in pairs]
    active = [row for row, pair in enumerate(pairs) if pair.source and pair.target]
    scored = translator.score([(lines[row][0].line, lines[row][1].line) for row in active])
    missing = [np.ones(len(pair.source)) for pair in pairs]
    for row, found in zip(active, scored, strict=True):
        # `score` has logged a warning about a pair without a hypothesis.
        if found.hypothesis is None:
            missing[row] = np.zeros(len(pairs[row].source))
            continue
        layers = found.hypothesis.posterior_attention
        if not any(layer.any() for layer in layers):
            return None
        weights = attention_map(layers, translator.search.alignment, translator.name)
        # The columns of sinks follow those of the text.
        missing[row] = _missing(translator, found, weights[:, : len(found.source_tokens)], lines[row])
    return missing


def _missing(
    translator: BaseTranslator,
    found: LineScore,
    weights: Float[np.ndarray, "T S"],
    lines: tuple[SideText, SideText],
) -> Float[np.ndarray, "W"]:
    """Return the missing attention of the source words of a pair with scored tokens."""
    num_words = len(lines[0].spans)
    of_source = locate_tokens(translator.text.source, found.source_tokens, lines[0])
    budget = _budget(translator, found)
    if budget is None:
        of_target = locate_tokens(translator.text.target, found.tokens, lines[1])
        # Each target word distributes one unit, independent of the number of its subword tokens.
        weights = weights / np.bincount(of_target)[of_target][:, None]
        expected = np.ones(num_words)
    else:
        expected = np.bincount(of_source, budget, minlength=num_words)
    received = np.bincount(of_source, weights.sum(axis=0), minlength=num_words)
    return np.clip(1 - received / np.maximum(expected, _MIN_EXPECTED), 0.0, 1.0)


def _budget(translator: BaseTranslator, found: LineScore) -> Float[np.ndarray, "S"] | None:
    """Return the expected attention of each token, or None if attention is not bounded."""
    budget = translator.text.budget
    if "fertility" not in translator.capabilities or budget is None:
        return None
    (fertilities,) = budget.fertilities([translator.text.source.vocabulary.to_ids(found.source_tokens)])
    # The slack is no part of the expectation: see `PredictedFertilityConfig`.
    slack = budget.config.slack if isinstance(budget.config, PredictedFertilityConfig) else 0.0
    return np.asarray(fertilities, dtype=np.float64) - slack


def locate_tokens(side: TextSide, tokens: Sequence[str], text: SideText) -> Int[np.ndarray, "N"]:
    """Return for each token of a line the word that it belongs to, by the characters that it covers.

    The words of a tokenizer may differ from those of a pair, such as `dog.` with its full stop.

    Args:
        side: Text processing of the side.
        tokens: The tokens of the line.
        text: The line and its words.
    """
    sizes = np.array([len("".join(side.tokenizer.decode([token]).split())) for token in tokens])
    ends = np.cumsum([last - first for first, last in text.spans])
    # A tokenizer may change characters (normalization, unknown tokens), so positions are proportional.
    scale = ends[-1] / max(int(sizes.sum()), 1)
    middles = (np.cumsum(sizes) - sizes / 2) * scale
    return np.minimum(np.searchsorted(ends, middles, side="right"), len(ends) - 1)
