"""Search with CTranslate2, and the model's own log-probabilities of the translations that are found.

CTranslate2 bans tokens before the softmax instead of after it, which raises the probabilities of all other
tokens. To report the model's own probabilities:

- The search runs without a ban on tokens such as padding, which a trained model does not produce. If a
  sentence's results contain one of them, its search is repeated with the ban.
- Translations for which CTranslate2 does not return the model's log-probability are scored in another pass.

Greedy search gives the same translations as `NeuralTranslator`. Beam search finishes a sentence when the
number of its translations reaches the beam size, whereas `NeuralTranslator` continues until no unfinished
hypothesis can beat them. The translations are ranked by the same score.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.generation.config import GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.penalties import length_penalty
from regard.text.vocabulary import BOS, EOS, PAD, SINK, SPECIAL_TOKENS

__all__ = ["EngineSearch"]

_BANNED = frozenset(SPECIAL_TOKENS[token] for token in (PAD, BOS, SINK))
"""The tokens that no translation contains."""

_Scores = dict[tuple[str, ...], float | None]
"""The log-probability of each translation of a sentence; None if the engine's value is not the model's."""


@dataclass(frozen=True)
class EngineSearch:
    """Search with CTranslate2.

    Attributes:
        engine: A `ctranslate2.Translator`.
        search: The search settings, with `suppress_unk` resolved.
        ids: The id of each target token of the engine.
    """

    engine: Any
    search: GenerationConfig
    ids: Mapping[str, int]

    def find(self, sources: Sequence[list[str]], limits: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the best translations of each sentence, best first, without attention.

        Args:
            sources: The tokens of each sentence, with its sinks.
            limits: The maximum number of tokens of each translation.

        Raises:
            DataError: if the engine cannot process a sentence, because it is longer than the model's
                positions; the message contains the reason of the engine.
        """
        try:
            # The engine has one limit per batch; sentences that exceed their own limit are searched again.
            translations = self._run(sources, max(limits, default=0), False)
            for row, limit in enumerate(limits):
                longer = limit < max(limits) and any(len(tokens) > limit for tokens in translations[row])
                if longer or any(not _BANNED.isdisjoint(tokens) for tokens in translations[row]):
                    (translations[row],) = self._run([sources[row]], limit, True)
            return self._rank(sources, translations)
        except (RuntimeError, ValueError) as error:
            raise DataError(f"ctranslate2 cannot translate this text: {error}") from None

    def _run(self, sources: Sequence[list[str]], limit: int, ban: bool) -> list[_Scores]:
        """Run the engine's search, with translations of at most `limit` tokens."""
        search = self.search
        # These options mask logits before the softmax, so that the scores are not the model's.
        masked = bool(ban or search.suppress_unk or search.min_length or search.no_repeat_ngram_size)
        results = self.engine.translate_batch(
            list(sources),
            beam_size=search.beam_size,
            # All hypotheses are needed, because `_rank` may reorder them by another length penalty.
            num_hypotheses=search.beam_size,
            # Without a penalty, the scores are plain log-probabilities; `_rank` applies the penalty.
            length_penalty=0,
            min_decoding_length=min(search.min_length, limit),
            max_decoding_length=limit + 1,  # the engine counts the end symbol
            max_input_length=0,
            no_repeat_ngram_size=search.no_repeat_ngram_size,
            disable_unk=search.suppress_unk,
            suppress_sequences=[[token] for token in sorted(_BANNED)] if ban else None,
            return_end_token=True,
            return_scores=True,
        )
        translations: list[_Scores] = []
        for result in results:
            # Two hypotheses may be equal after truncation to the limit; keep the first, which ranks higher.
            unique: _Scores = {}
            for hypothesis, score in zip(result.hypotheses, result.scores, strict=True):
                ended = hypothesis[-1:] == [SPECIAL_TOKENS[EOS]]
                truncated = tuple(hypothesis[:-1] if ended else hypothesis[:limit])
                unique.setdefault(truncated, score if ended and not masked else None)
            translations.append(unique)
        return translations

    def _rank(self, sources: Sequence[list[str]], translations: Sequence[_Scores]) -> list[list[Hypothesis]]:
        """Return the best translations of each sentence."""
        missing = [
            (source, list(tokens))
            for source, several in zip(sources, translations, strict=True)
            for tokens, known in several.items()
            if known is None
        ]
        # One pass scores the candidates of all sentences for which the engine has not returned the score.
        scores: Iterator[Any] = iter(())
        if missing:
            batch, targets = zip(*missing, strict=True)
            scores = iter(self.engine.score_batch(list(batch), list(targets), max_input_length=0))
        results: list[list[Hypothesis]] = []
        for several in translations:
            candidates: list[Hypothesis] = []
            for tokens, known in several.items():
                # The missing scores come in the order in which these loops visit the candidates.
                log_probability = sum(next(scores).log_probs) if known is None else known
                # The end symbol counts as a token of the translation, as in `NeuralTranslator`.
                penalty = length_penalty(len(tokens) + 1, self.search.length_penalty)
                ids = tuple(self.ids[token] for token in tokens)
                score = log_probability / penalty
                candidates.append(Hypothesis(ids, score, log_probability, token_log_probs=(), attention=()))
            candidates.sort(key=lambda candidate: -candidate.score)
            results.append(candidates[: self.search.num_return])
        return results
