"""Training of a phrase-based system: alignment, phrase extraction, estimation and tuning."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.alignment.base import Setting
from regard.alignment.both import train_both
from regard.alignment.corpus import Corpus, Text, Words
from regard.alignment.symmetrize import LinkTable
from regard.data.corpus import read_lines
from regard.data.prepared import Prepared
from regard.data.vocabulary import UNK
from regard.processors import available_processors
from regard.smt.config import PhraseConfig
from regard.smt.decoder import Decoder
from regard.smt.features import START
from regard.smt.kneser_ney import estimate
from regard.smt.language_model import LanguageModel
from regard.smt.model import PHRASE_FOLDER, PhraseModel, load_decoder, make_decoder, save_phrases
from regard.smt.phrase_table import train_table
from regard.smt.tuning import tune
from regard.smt.tuning_state import Round

__all__ = ["align_corpus", "train_phrases"]

_log = logging.getLogger(__name__)


def train_phrases(
    config: PhraseConfig,
    prepared: Prepared,
    folder: Path,
    kept: Path,
    seed: int,
    threads: int = 0,
    *,
    fingerprint: str,
    beside: Mapping[str, str] | None = None,
) -> PhraseModel:
    """Train and tune a system and write it to a model directory, or resume an interrupted run.

    The same text, options and seed give the same system with any number of threads.

    Args:
        config: The options of the system.
        prepared: The prepared text. The tables are estimated on `train`, the weights are tuned on `valid`.
        folder: The model directory; it exists.
        kept: The directory of the untuned tables and the state of tuning during the run.
        seed: The random seed of the aligner and of tuning.
        threads: The number of threads of compiled code. 0 uses all processors.
        fingerprint: The fingerprint of the text, stored with the system.
        beside: The checksums of the config and the vocabularies, stored with the system.

    Raises:
        DataError: if a pair has an empty side, no words can be aligned, or no sentence is long enough for the
            order of the language model.
        CheckpointError: if a directory is damaged or cannot be written.
    """
    threads = threads or available_processors()
    if (kept / PHRASE_FOLDER).is_dir():
        _log.info("resuming with the tables in %s", kept)
        decoder, _ = load_decoder(kept, prepared.text, config)
    else:
        decoder = _untuned(config, prepared, seed, threads)
        save_phrases(kept, decoder, 0.0, fingerprint)
    system = PhraseModel(decoder, prepared.text, 0.0)
    best = _tuned(config, prepared, system, kept / "tuning", seed, threads)
    made = replace(system, decoder=replace(decoder, weights=best.weights), bleu=best.bleu)
    save_phrases(folder, made.decoder, made.bleu, fingerprint, beside)
    return made


def _untuned(config: PhraseConfig, prepared: Prepared, seed: int, threads: int) -> Decoder:
    """Estimate the tables on the training text; the weights are the initial ones."""
    rows = _rows(prepared, seed)
    corpus = Corpus.from_prepared(prepared).rows(rows)
    _log.info("aligning %d sentence pairs", len(corpus))
    links = align_corpus(corpus, config, seed, threads)
    table = train_table(corpus, links, config.max_phrase, config.smoothing, UNK)
    _log.info("%d phrase pairs", len(table))
    model = _language_model(config, prepared, rows)
    _log.info("language model: %d n-grams of order %d", len(model.trie) - 1, model.order)
    return make_decoder(table, model, prepared.text, START, config)


def _rows(prepared: Prepared, seed: int) -> np.ndarray:
    """Return the rows of the training text, with each corpus repeated by its weight; see `Split.epoch`."""
    return prepared.split("train").epoch(seed, 0)


def align_corpus(corpus: Corpus, config: PhraseConfig, seed: int, threads: int) -> LinkTable:
    """Return the word links of a text: both directions, symmetrized by grow-diag-final-and.

    Args:
        corpus: The sentence pairs.
        config: The options of the system, which give the aligner and whether the text is lowercased.
        seed: The random seed.
        threads: The number of threads of compiled code.
    """
    plain = Corpus(_lowered(corpus.source), _lowered(corpus.target)) if config.lowercase else corpus
    aligner = train_both(plain, config.aligner, Setting(threads=threads, seed=seed))
    return aligner.align(plain, threads=threads)


def _lowered(text: Text) -> Text:
    """Return one side of a corpus with lowercased words."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    new = np.array([numbers[word.lower()] for word in text.words.spelling], dtype=np.int32)
    return Text(Words(tuple(numbers)), new[text.tokens], text.starts, text.lengths)


def _language_model(config: PhraseConfig, prepared: Prepared, rows: np.ndarray) -> LanguageModel:
    """Estimate the language model on the target text and the monolingual files."""
    target = prepared.text.target
    train = prepared.split("train")
    spelling = target.vocabulary.tokens

    def sentences() -> Iterable[list[str]]:
        for row in rows.tolist():
            yield [spelling[number] for number in train.example(row)[1][:-1].tolist()]
        for path in config.monolingual:
            for line in read_lines(path):
                if tokens := target.tokenizer.encode(line):
                    yield tokens

    return estimate(sentences(), config.order, "the target text")


def _tuned(
    config: PhraseConfig, prepared: Prepared, system: PhraseModel, kept: Path, seed: int, threads: int
) -> Round:
    """Tune the weights on the validation text and return the best round."""
    text, tuning = prepared.text, config.tuning
    strange: defaultdict[str, int] = defaultdict()
    strange.default_factory = lambda: -2 - len(strange)

    def target_ids(tokens: list[str]) -> list[int]:
        ids = text.target.vocabulary.ids(tokens)
        pairs = zip(tokens, ids, strict=True)
        return [strange[token] if number == UNK else number for token, number in pairs]

    sources, references, copies = [], [], []
    for source, target in zip(*prepared.split("valid").raw(), strict=True):
        tokens = text.source.tokenize(source)
        sources.append(system.source_ids(tokens))
        copies.append(target_ids(tokens))
        references.append(target_ids(text.target.tokenize(target)))
    return tune(
        system.decoder,
        sources,
        references,
        copies,
        tuning.rounds,
        tuning.nbest if tuning.rounds else 1,
        tuning.restarts,
        seed,
        threads,
        folder=kept,
    )
