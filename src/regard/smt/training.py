"""Training of a phrase-based system: alignment, phrase extraction, estimation and tuning."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus, Text, WordList
from regard.alignment.symmetrize import LinkTable
from regard.alignment.word_aligner import train_both
from regard.cpu_threads import num_available_cpus
from regard.data.corpus import read_lines
from regard.data.dataset import PreparedData
from regard.data.vocabulary import UNK
from regard.smt.config import PhraseConfig
from regard.smt.decoder import PhraseDecoder
from regard.smt.features import INITIAL_WEIGHTS
from regard.smt.kneser_ney import estimate_language_model
from regard.smt.language_model import NgramLanguageModel
from regard.smt.model import PHRASE_DIR, PhraseModel, build_decoder, load_phrase_decoder, save_phrases
from regard.smt.phrase_table import estimate_phrase_table
from regard.smt.tuning import tune_weights
from regard.smt.tuning_state import TuningRound

__all__ = ["align_corpus", "train_phrases"]

_log = logging.getLogger(__name__)


def train_phrases(
    config: PhraseConfig,
    prepared: PreparedData,
    output_dir: Path,
    state_dir: Path,
    seed: int,
    num_threads: int = 0,
    *,
    fingerprint: str,
    file_checksums: Mapping[str, str] | None = None,
) -> PhraseModel:
    """Train and tune a system and write it to a model directory, or resume an interrupted run.

    The same text, options and seed give the same system with any number of threads.

    Args:
        config: The options of the system.
        prepared: The prepared text. The tables are estimated on `train`, the weights are tuned on `valid`.
        output_dir: The model directory; it exists.
        state_dir: The directory of the untuned tables and the state of tuning during the run.
        seed: The random seed of the aligner and of tuning.
        num_threads: The number of threads of compiled code. 0 uses all processors.
        fingerprint: The fingerprint of the text, stored with the system.
        file_checksums: The checksums of the config and the vocabularies, stored with the system.

    Raises:
        DataError: if a pair has an empty side, no words can be aligned, or no sentence is long enough for the
            order of the language model.
        CheckpointError: if a directory is damaged or cannot be written.
    """
    num_threads = num_threads or num_available_cpus()
    if (state_dir / PHRASE_DIR).is_dir():
        _log.info("resuming with the tables in %s", state_dir)
        decoder, _ = load_phrase_decoder(state_dir, prepared.text, config)
    else:
        decoder = _estimate_tables(config, prepared, seed, num_threads)
        save_phrases(state_dir, decoder, 0.0, fingerprint)
    system = PhraseModel(decoder, prepared.text, 0.0)
    best = _tune_weights(config, prepared, system, state_dir / "tuning", seed, num_threads)
    tuned = replace(system, decoder=replace(decoder, weights=best.weights), bleu=best.bleu)
    save_phrases(output_dir, tuned.decoder, tuned.bleu, fingerprint, file_checksums)
    return tuned


def _estimate_tables(config: PhraseConfig, prepared: PreparedData, seed: int, threads: int) -> PhraseDecoder:
    """Estimate the tables on the training text; the weights are the initial ones."""
    rows = _rows(prepared, seed)
    corpus = Corpus.from_prepared(prepared).select(rows)
    _log.info("aligning %d sentence pairs", len(corpus))
    links = align_corpus(corpus, config, seed, threads)
    table = estimate_phrase_table(corpus, links, config.max_phrase_length, config.smoothing, UNK)
    _log.info("%d phrase pairs", len(table))
    model = _language_model(config, prepared, rows)
    _log.info("language model: %d n-grams of order %d", len(model.trie) - 1, model.order)
    return build_decoder(table, model, prepared.text, INITIAL_WEIGHTS, config)


def _rows(prepared: PreparedData, seed: int) -> np.ndarray:
    """Return the rows of the training text, each corpus repeated by its sampling weight."""
    return prepared.split("train").epoch_rows(seed, 0)


def align_corpus(corpus: Corpus, config: PhraseConfig, seed: int, threads: int) -> LinkTable:
    """Return the word links of a text: both directions, symmetrized by grow-diag-final-and.

    Args:
        corpus: The sentence pairs.
        config: The options of the system, which give the aligner and whether the text is lowercased.
        seed: The random seed.
        threads: The number of threads of compiled code.
    """
    plain = Corpus(_lowercase(corpus.source), _lowercase(corpus.target)) if config.lowercase else corpus
    aligner = train_both(plain, config.aligner, TrainingSetup(num_threads=threads, seed=seed))
    return aligner.align(plain, threads=threads)


def _lowercase(text: Text) -> Text:
    """Return one side of a corpus with lowercased words."""
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


def _tune_weights(
    config: PhraseConfig,
    prepared: PreparedData,
    system: PhraseModel,
    state_dir: Path,
    seed: int,
    threads: int,
) -> TuningRound:
    """Tune the weights on the validation text and return the best round."""
    text, tuning = prepared.text, config.tuning
    unknown_ids: defaultdict[str, int] = defaultdict()
    unknown_ids.default_factory = lambda: -2 - len(unknown_ids)

    def target_ids(tokens: list[str]) -> list[int]:
        ids = text.target.vocabulary.to_ids(tokens)
        pairs = zip(tokens, ids, strict=True)
        return [unknown_ids[token] if number == UNK else number for token, number in pairs]

    sources, references, copies = [], [], []
    for source, target in zip(*prepared.split("valid").raw_lines(), strict=True):
        tokens = text.source.tokenize(source)
        sources.append(system.source_ids(tokens))
        copies.append(target_ids(tokens))
        references.append(target_ids(text.target.tokenize(target)))
    return tune_weights(
        system.decoder,
        sources,
        references,
        copies,
        tuning.num_rounds,
        tuning.nbest_size if tuning.num_rounds else 1,
        tuning.num_restarts,
        seed,
        threads,
        state_dir=state_dir,
    )
