"""Translation with an exported model: CTranslate2 runs the search, regard processes text and scores.

CTranslate2 bans tokens before the softmax instead of after it, which raises the probabilities of all other
tokens. To report the model's own probabilities:

- The search runs without a ban on tokens such as padding, which a trained model does not produce. If a
  sentence's results contain one of them, its search is repeated with the ban.
- Translations for which CTranslate2 does not return the model's log-probability are scored in another pass.

Greedy search gives the same translations as `NeuralTranslator`. Beam search finishes a sentence when the
number of its translations reaches the beam size, whereas `NeuralTranslator` continues until no unfinished
hypothesis can beat them. The translations are ranked by the same score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError, DeviceError, UsageError
from regard.extensions.ctranslate2.export import POSITIONS_KEY, check_export, import_ctranslate2, token_names
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.blocks import length_sorted_batches
from regard.generation.config import GenerationBatchConfig, GenerationConfig, LengthLimits
from regard.generation.hypothesis import Hypothesis, HypothesisScorer
from regard.generation.lines import Line
from regard.generation.translation import Translation
from regard.runs.description import CONFIG_FILE, load_description
from regard.runs.fertility_predictor import load_text_processing
from regard.runs.weights import EXPORTED_FILE, MODEL_FILE
from regard.text.reading import read_json
from regard.text.vocabulary import BOS, EOS, PAD, SINK, SPECIAL_TOKENS

_BANNED = frozenset(SPECIAL_TOKENS[token] for token in (PAD, BOS, SINK))
"""The tokens that no translation contains."""

_Scores = dict[tuple[str, ...], float | None]
"""The log-probability of each translation of a sentence; None if the engine's value is not the model's."""


@dataclass(frozen=True)
class ExportedTranslator(BaseTranslator):
    """An exported model with search settings; it returns no attention and no token log-probabilities.

    Attributes:
        engine: A `ctranslate2.Translator`.
        text: Text processing of both sides.
        search: The search settings.
        max_length: Maximum number of tokens of a sentence, including a sink or end symbol.
        name: Name of the model in messages.
    """

    engine: Any
    text: TextProcessor
    search: GenerationConfig
    max_length: int
    name: str = "the exported model"
    search_options = frozenset(
        {
            *(field.name for field in fields(GenerationBatchConfig)),
            *("beam_size", "num_return", "length_penalty", "coverage_penalty", "coverage_epsilon"),
            *("min_length", "max_length_ratio", "max_length_offset", "no_repeat_ngram_size"),
            *("suppress_unk", "replace_unk"),
        }
    )

    @staticmethod
    def reads(model_dir: Path) -> bool:
        """Return whether a directory contains an exported model and no weights that regard itself uses."""
        exported = (model_dir / EXPORTED_FILE).exists() and (model_dir / CONFIG_FILE).exists()
        return exported and not (model_dir / MODEL_FILE).exists()

    @classmethod
    def load(cls, model_dir: Path | str, device: str = "auto", num_threads: int | None = None) -> Self:
        """Load a model that `regard export` has written.

        Args:
            model_dir: The model's directory.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            num_threads: Number of CPU threads. None means CTranslate2's default.

        Raises:
            UsageError: if the directory contains a model that is not exported, or the package is missing.
            CheckpointError: if a file is missing or corrupt; the message names it.
            DeviceError: if the device is not available.
        """
        model_dir = Path(model_dir)
        if model_dir.is_dir() and not (model_dir / EXPORTED_FILE).exists():
            raise UsageError(
                f"{model_dir}: not a model for ctranslate2; export it first with "
                f"regard export {model_dir} -o NEW"
            )
        package = import_ctranslate2()
        config = load_description(model_dir)
        check_export(model_dir)
        try:
            text = load_text_processing(model_dir)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        path = model_dir / "config.json"
        try:
            longest = int(read_json(path, dict[str, Any])[POSITIONS_KEY])
        except (DataError, ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{path}: missing, or not written by `regard export`; export the model again"
            ) from None
        device_type, _, index = device.partition(":")
        settings = {"device_index": int(index) if index.isdigit() else 0, "intra_threads": num_threads or 0}
        try:
            engine = package.Translator(str(model_dir), device=device_type, **settings)
        except (RuntimeError, ValueError) as error:
            if device_type == "cuda":
                raise DeviceError(f"device {device!r}: ctranslate2 cannot use it: {error}") from None
            raise CheckpointError(
                f"{model_dir / EXPORTED_FILE}: ctranslate2 cannot read it: {error}"
            ) from None
        return cls(engine, text, config.generation, longest, str(model_dir))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The empty set: the engine only translates."""
        return frozenset()

    def describe(self) -> Description:
        """Return the kind of the model; the engine does not report the number of parameters."""
        return Description("ctranslate2", attention="soft", normalizer="softmax")

    @property
    def resolved_search(self) -> GenerationConfig:
        """The search settings, with `suppress_unk` resolved for the tokenizer.

        Raises:
            UsageError: if CTranslate2 does not support a search setting; the message names the setting.
        """
        search = self.search
        coverage, scheme = search.coverage_penalty.weight, search.scheme
        if coverage:
            raise self.unsupported(
                f"--coverage-penalty (generation.coverage_penalty.weight) = {coverage}", "0 disables it"
            )
        if search.alignment.replace_unk:
            raise self.unsupported("--replace-unk (generation.alignment.replace_unk)")
        if scheme.hf_compatible:
            raise self.unsupported("generation.scheme.hf_compatible")
        if scheme.stopping != "heuristic":
            raise self.unsupported(f"generation.scheme.stopping = {scheme.stopping!r}")
        return super().resolved_search

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair that the model can process."""
        return self.search.length_limits(self.max_length, len(self.text.sink_tokens))

    @cached_property
    def _token_names(self) -> tuple[list[str], dict[str, int]]:
        """The engine's names of the source tokens, and the id of each name of a target token."""
        target_names = token_names(self.text.target.vocabulary)
        ids = {name: number for number, name in enumerate(target_names)}
        return token_names(self.text.source.vocabulary), ids

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate a list of lines.

        Raises:
            DataError: if the engine cannot process a sentence, because it is longer than the model's
                positions; the message contains the reason of the engine.
        """
        translations = [self.tokenize(line) for line in lines]
        lengths = [len(translation.text_source_tokens) for translation in translations]
        source, target, search = self.text.source, self.text.target, self.resolved_search
        for rows in length_sorted_batches(lengths, self.search):
            sources: list[list[str]] = []
            for row in rows:
                ids = source.vocabulary.to_ids(translations[row].text_source_tokens)
                names = [self._token_names[0][number] for number in ids]
                sources.append([*names, *self.text.sink_tokens])
            limits = [min(search.max_target_length(len(ids)), self.max_length - 1) for ids in sources]
            try:
                batch_hypotheses = self._rank(sources, self._find(sources, limits))
            except (RuntimeError, ValueError) as error:
                raise DataError(f"ctranslate2 cannot translate this text: {error}") from None
            for row, hypotheses in zip(rows, batch_hypotheses, strict=True):
                tokens = [target.vocabulary.to_tokens(hypothesis.tokens) for hypothesis in hypotheses]
                texts = [target.tokenizer.decode(words) for words in tokens]
                candidates = zip(texts, tokens, hypotheses, strict=True)
                translations[row] = translations[row].with_nbest(candidates)
        return translations

    def _find(self, sources: Sequence[list[str]], limits: Sequence[int]) -> list[_Scores]:
        """Return the translations of each sentence, with at most its limit of tokens."""
        # The engine has one limit per batch; sentences that exceed their own limit are searched again.
        translations = self._run(sources, max(limits, default=0), False)
        for row, limit in enumerate(limits):
            longer = limit < max(limits) and any(len(tokens) > limit for tokens in translations[row])
            if longer or any(not _BANNED.isdisjoint(tokens) for tokens in translations[row]):
                (translations[row],) = self._run([sources[row]], limit, True)
        return translations

    def _run(self, sources: Sequence[list[str]], limit: int, ban: bool) -> list[_Scores]:
        """Run the engine's search, with translations of at most `limit` tokens."""
        search = self.resolved_search
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
                penalty = HypothesisScorer(self.search.length_penalty).penalty(len(tokens) + 1)
                ids = tuple(self._token_names[1][token] for token in tokens)
                score = log_probability / penalty
                candidates.append(Hypothesis(ids, score, log_probability, token_log_probs=(), attention=()))
            candidates.sort(key=lambda candidate: -candidate.score)
            results.append(candidates[: self.search.num_return])
        return results
