"""A phrase-based system as a model that a run trains: alignment, extraction, estimation and tuning."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus, Text, WordList
from regard.alignment.word_aligner import train_both
from regard.config.cpu_threads import num_available_cpus
from regard.data.dataset import PreparedData
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError
from regard.extensions.smt.decoder import PhraseDecoder
from regard.extensions.smt.kneser_ney import estimate_language_model
from regard.extensions.smt.language_model import NgramLanguageModel
from regard.extensions.smt.model import (
    PHRASE_DIR,
    PhraseConfig,
    PhraseTranslator,
    build_decoder,
    load_phrases,
    read_description,
    save_phrases,
    source_ids,
)
from regard.extensions.smt.phrase_table import estimate_phrase_table
from regard.extensions.smt.translation_options import INITIAL_WEIGHTS
from regard.extensions.smt.tuning import TuningText, tune_weights
from regard.models.base import TrainableSystem
from regard.models.registry import register_model
from regard.runs.checksums import compare_checksums, file_checksums
from regard.runs.description import read_stated_config
from regard.text.corpus import read_lines
from regard.text.vocabulary import UNK

if TYPE_CHECKING:
    from regard.training.trainer import TrainingResult

_log = logging.getLogger(__name__)


@register_model("phrase", PhraseConfig)
class PhraseSystem(TrainableSystem):
    """A phrase-based system: it trains itself, and has no attention of its own."""

    is_neural = False
    weights_name = PHRASE_DIR

    @classmethod
    def train_run(
        cls,
        config: PhraseConfig,
        prepared: PreparedData,
        model_dir: Path,
        file_checksums: Mapping[str, str],
        seed: int,
        num_threads: int,
    ) -> "TrainingResult":
        """Train the system; see `TrainableSystem.train_run`.

        The same text, options and seed give the same system with any number of threads.

        Raises:
            DataError: if a pair has an empty side, no words can be aligned, or no sentence is long enough for
                the order of the language model.
            CheckpointError: if the directory is damaged, cannot be written or holds a system of other text.
        """
        from regard.training.progress import TrainingProgress
        from regard.training.trainer import TrainingResult

        begun = time.monotonic()
        if (model_dir / PHRASE_DIR).is_dir():
            description = read_description(model_dir)
            if description.fingerprint not in (None, prepared.fingerprint):
                raise CheckpointError(
                    f"{model_dir}: the training data has changed since this run began; train into another "
                    "directory"
                )
            compare_checksums(description.file_checksums, model_dir / PHRASE_DIR, model_dir, file_checksums)
            load_phrases(model_dir, config, prepared.text)  # fails if a file is damaged
            bleu, reason, seconds = description.bleu, "an earlier run had finished", 0.0
        else:
            num_threads = num_threads or num_available_cpus()
            decoder = _estimate_tables(config, prepared, seed, num_threads)
            rounds = tune_weights(decoder, _validation_text(prepared), config.tuning, seed, num_threads)
            best = max(rounds, key=lambda tuning_round: tuning_round.bleu)
            tuned, bleu = replace(decoder, weights=best.weights), best.bleu
            save_phrases(model_dir, tuned, bleu, prepared.fingerprint, file_checksums)
            reason, seconds = "tuning", time.monotonic() - begun
        return TrainingResult(
            reason, None, TrainingProgress(seconds=seconds, best_score=bleu), "bleu", model_dir
        )

    @classmethod
    def load_translator(cls, run: Any, model_dir: Path, num_threads: int) -> PhraseTranslator:
        """Load a translator whose beam is the stack size; see `TrainableSystem.load_translator`.

        Raises:
            CheckpointError: if the directory is damaged.
        """
        recorded = read_description(model_dir).file_checksums
        checksums = file_checksums(model_dir, read_stated_config(model_dir))
        compare_checksums(recorded, model_dir / PHRASE_DIR, model_dir, checksums)
        try:
            text = TextProcessor.load(model_dir)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        decoder = load_phrases(model_dir, run.model, text)
        search = replace(run.generation, beam_size=run.model.stack_size, num_return=1)
        return PhraseTranslator(decoder, text, search, num_threads, str(model_dir))


def _estimate_tables(config: PhraseConfig, prepared: PreparedData, seed: int, threads: int) -> PhraseDecoder:
    """Estimate the tables on the training text; the weights are the initial ones."""
    # Each corpus is repeated by its sampling weight, as in the first epoch of a neural model.
    rows = prepared.split("train").epoch_rows(seed, 0)
    corpus = prepared.alignment_corpus().select(rows)
    _log.info("aligning %d sentence pairs", len(corpus))
    plain = Corpus(_lowercase(corpus.source), _lowercase(corpus.target)) if config.lowercase else corpus
    aligner = train_both(plain, config.aligner, TrainingSetup(num_threads=threads, seed=seed))
    # Both directions are symmetrized by grow-diag-final-and.
    links = aligner.align(plain, threads=threads)
    table = estimate_phrase_table(corpus, links, config.max_phrase_length, config.smoothing, UNK)
    _log.info("%d phrase pairs", len(table))
    model = _language_model(config, prepared, rows)
    _log.info("language model: %d n-grams of order %d", len(model.trie) - 1, model.trie.order)
    return build_decoder(table, model, prepared.text, INITIAL_WEIGHTS, config)


def _lowercase(text: Text) -> Text:
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    new = np.array([numbers[word.lower()] for word in text.words.words], dtype=np.int32)
    return Text(WordList(tuple(numbers)), new[text.tokens], text.starts, text.lengths)


def _language_model(config: PhraseConfig, prepared: PreparedData, rows: np.ndarray) -> NgramLanguageModel:
    """Estimate the language model on the target text and the monolingual files."""
    target = prepared.text.target
    train = prepared.split("train")
    vocabulary = target.vocabulary.tokens

    def sentences() -> Iterable[list[str]]:
        for row in rows.tolist():
            yield [vocabulary[number] for number in train.example(row)[1][:-1].tolist()]
        for path in config.monolingual:
            for line in read_lines(path):
                if tokens := target.tokenizer.encode(line):
                    yield tokens

    return estimate_language_model(sentences(), config.lm_order, "the target text")


def _validation_text(prepared: PreparedData) -> TuningText:
    """Return the validation text as word ids."""
    text = prepared.text
    # -1 stands for copied words (`COPIED`), so that the ids of unknown target words start at -2.
    unknown_ids: defaultdict[str, int] = defaultdict()
    unknown_ids.default_factory = lambda: -2 - len(unknown_ids)

    def target_ids(tokens: list[str]) -> list[int]:
        ids = text.target.vocabulary.to_ids(tokens)
        pairs = zip(tokens, ids, strict=True)
        return [unknown_ids[token] if number == UNK else number for token, number in pairs]

    sources, references, copied_ids = [], [], []
    for source, target in zip(*prepared.split("valid").raw_lines(), strict=True):
        tokens = text.source.tokenize(source)
        sources.append(source_ids(text.source.vocabulary, tokens))
        copied_ids.append(target_ids(tokens))
        references.append(target_ids(text.target.tokenize(target)))
    return TuningText(sources, references, copied_ids)
