"""Search with CTranslate2, and the model's own log-probabilities of the translations that are found.

CTranslate2 bans tokens before the softmax instead of after it, which raises the probabilities of all other
tokens. To report the model's own probabilities:

- The search runs without a ban on tokens such as padding, which a trained model does not produce. If a
  sentence's results contain one of them, its search is repeated with the ban.
- Translations for which CTranslate2 does not return the model's log-probability are scored in another pass.

Greedy search gives the same translations as `Translator`. Beam search finishes a sentence when the number of
its translations reaches the beam size, whereas `Translator` continues until no unfinished hypothesis can beat
them. The translations are ranked by the same score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.generation.config import GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.penalties import length_penalty

__all__ = ["EngineCandidate", "EngineSearch"]


@dataclass(frozen=True)
class EngineCandidate:
    """A translation that the search returned.

    Attributes:
        tokens: The tokens, without the prefix and the end symbol.
        log_probability: The log-probability with the end symbol, in nats.
        score: The log-probability divided by the length penalty.
    """

    tokens: tuple[str, ...]
    log_probability: float
    score: float

    def to_hypothesis(self, ids: Sequence[int]) -> Hypothesis:
        """Return the translation with the given ids, without log-probabilities of tokens and attention."""
        return Hypothesis(tuple(ids), self.score, self.log_probability, token_log_probs=(), attention=())


_Found = dict[tuple[str, ...], float | None]
"""The log-probability of each translation of a sentence; None if the engine's value is not the model's."""


@dataclass(frozen=True)
class EngineSearch:
    """Search with CTranslate2.

    Attributes:
        engine: A `ctranslate2.Translator`.
        search: The search settings, with `suppress_unk` resolved.
        end: The end symbol.
        banned: Tokens that no translation contains.
        prefix: The tokens at the start of every translation, such as the language; they are not scored.
    """

    engine: Any
    search: GenerationConfig
    end: str
    banned: frozenset[str] = frozenset()
    prefix: tuple[str, ...] = ()

    def find(self, sources: Sequence[list[str]], limits: Sequence[int]) -> list[list[EngineCandidate]]:
        """Return the best translations of each sentence, best first.

        Args:
            sources: The tokens of each sentence, with the special symbols of the model.
            limits: The maximum number of tokens of each translation.

        Raises:
            DataError: if the engine cannot process a sentence, because it is longer than the model's
                positions; the message contains the reason of the engine.
        """
        try:
            # The engine has one limit per batch; sentences that exceed their own limit are searched again.
            found = self._run(sources, max(limits, default=0), False)
            for row, limit in enumerate(limits):
                longer = limit < max(limits) and any(len(tokens) > limit for tokens in found[row])
                if longer or any(not self.banned.isdisjoint(tokens) for tokens in found[row]):
                    (found[row],) = self._run([sources[row]], limit, True)
            return self._rank(sources, found)
        except (RuntimeError, ValueError) as error:
            raise DataError(f"ctranslate2 cannot translate this text: {error}") from None

    def _run(self, sources: Sequence[list[str]], limit: int, ban: bool) -> list[_Found]:
        """Run the engine's search, with translations of at most `limit` tokens."""
        search, before = self.search, len(self.prefix)
        ban = ban and bool(self.banned)
        # These options mask logits before the softmax, so that the scores are not the model's.
        masked = bool(ban or search.suppress_unk or search.min_length or search.no_repeat_ngram_size)
        results = self.engine.translate_batch(
            list(sources),
            target_prefix=[list(self.prefix)] * len(sources) if self.prefix else None,
            beam_size=search.beam_size,
            # All hypotheses are needed, because `_rank` may reorder them by another length penalty.
            num_hypotheses=search.beam_size,
            # Without a penalty, the scores are plain log-probabilities; `_rank` applies the penalty.
            length_penalty=0,
            min_decoding_length=min(search.min_length, limit),
            max_decoding_length=before + limit + 1,  # the engine counts prefix and end symbol
            max_input_length=0,
            no_repeat_ngram_size=search.no_repeat_ngram_size,
            disable_unk=search.suppress_unk,
            suppress_sequences=[[token] for token in sorted(self.banned)] if ban else None,
            return_end_token=True,
            return_scores=True,
        )
        found: list[_Found] = []
        for one in results:
            # Two hypotheses may be equal after truncation to the limit; keep the first, which ranks higher.
            unique: _Found = {}
            for hypothesis, score in zip(one.hypotheses, one.scores, strict=True):
                tokens = hypothesis[before:]
                ended = tokens[-1:] == [self.end]
                truncated = tuple(tokens[:-1] if ended else tokens[:limit])
                unique.setdefault(truncated, score if ended and not masked else None)
            found.append(unique)
        return found

    def _rank(self, sources: Sequence[list[str]], found: Sequence[_Found]) -> list[list[EngineCandidate]]:
        """Return the best candidates of each sentence."""
        missing = [
            (source, [*self.prefix, *tokens])
            for source, several in zip(sources, found, strict=True)
            for tokens, known in several.items()
            if known is None
        ]
        # One pass scores the candidates of all sentences for which the engine has not returned the score.
        scores: Iterator[Any] = iter(())
        if missing:
            batch, targets = zip(*missing, strict=True)
            scores = iter(self.engine.score_batch(list(batch), list(targets), max_input_length=0))
        results: list[list[EngineCandidate]] = []
        for several in found:
            candidates: list[EngineCandidate] = []
            for tokens, known in several.items():
                # The missing scores come in the order in which these loops visit the candidates.
                log_probability = sum(next(scores).log_probs[len(self.prefix) :]) if known is None else known
                # The end symbol counts as a token of the translation, as in `Translator`.
                penalty = length_penalty(len(tokens) + 1, self.search.length_penalty)
                candidates.append(EngineCandidate(tokens, log_probability, log_probability / penalty))
            results.append(sorted(candidates, key=lambda one: -one.score)[: self.search.num_return])
        return results
