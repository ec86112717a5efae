"""A trained phrase-based system: its options, its directory, and translation of text lines with it.

The directory `phrase/` of a model directory contains `about.json` (weights by name, BLEU of the validation
text, checksums), `phrases.safetensors` and `language.safetensors`. It is created atomically.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from safetensors import SafetensorError

from regard.alignment.base import AlignerConfig
from regard.alignment.bayes_sampler import BayesConfig
from regard.config import configclass, option
from regard.config.cpu_threads import num_available_cpus
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError
from regard.extensions.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation, SearchLimits
from regard.extensions.smt.extraction import MAX_PHRASE_LENGTH
from regard.extensions.smt.language_model import NgramLanguageModel
from regard.extensions.smt.phrase_table import PhraseTable
from regard.extensions.smt.search_kernels import MAX_DISTORTION_LIMIT
from regard.extensions.smt.translation_options import FEATURE_NAMES
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationBatchConfig, GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import Line
from regard.generation.translation import Translation
from regard.text.files import atomic_directory
from regard.text.paths import check_link
from regard.text.reading import (
    Checksums,
    InvalidJsonError,
    checked_file,
    compute_checksums,
    read_json,
    verify_checksums,
)
from regard.text.vocabulary import UNK, Vocabulary

PHRASE_DIR, DESCRIPTION_FILE = "phrase", "about.json"
FORMAT_VERSION = 3


@configclass
class TuningConfig:
    """Minimum error rate training, Och (2003), on the validation text."""

    num_rounds: int = option(
        default=8, help="Maximum number of tuning rounds. 0 disables tuning.", ge=0, le=10_000
    )
    nbest_size: int = option(
        default=100, help="Size of the n-best list of each sentence in a round.", ge=1, le=100_000
    )
    num_restarts: int = option(
        default=4, help="Number of additional random starting points in each round.", ge=0, le=10_000
    )


@configclass
class PhraseConfig:
    """Phrase-based translation, Koehn et al. (2003)."""

    kind: Literal["phrase"] = option(default="phrase", help="A phrase-based model, Koehn et al. (2003).")
    aligner: AlignerConfig = option(default=BayesConfig, help="Word aligner, trained in both directions.")
    lowercase: bool = option(default=True, help="Whether the aligner lowercases the text.")
    max_phrase_length: int = option(
        default=MAX_PHRASE_LENGTH,
        help="Maximum length of a phrase in words, 1 to 7.",
        ge=1,
        le=MAX_PHRASE_LENGTH,
    )
    smoothing: Literal["kneser-ney", "none"] = option(
        default="kneser-ney", help='Smoothing of phrase probabilities; "none" uses relative frequencies.'
    )
    reordering: Literal["lexicalized", "distance"] = option(
        default="lexicalized",
        help="Reordering model: distance and orientation of each phrase, or distance only.",
    )
    lm_order: int = option(default=5, help="Order of the target language model, 1 to 9.", ge=1, le=9)
    monolingual: tuple[str, ...] = option(
        default=(), help="Additional text files for the language model, plain or compressed. Default: none."
    )
    stack_size: int = option(
        default=100, help="Maximum number of hypotheses that are extended per stack.", ge=1, le=100_000
    )
    max_options: int = option(
        default=20, help="Maximum number of translations that are tried per source phrase.", ge=1, le=10_000
    )
    distortion_limit: int = option(
        default=6,
        help="Maximum distance of a reordering jump in source words. 0 translates without reordering.",
        ge=0,
        le=MAX_DISTORTION_LIMIT,
    )
    tuning: TuningConfig = option(
        default=TuningConfig,
        help="Tuning of the feature weights by minimum error rate training, Och (2003), for BLEU on "
        "data.valid.",
    )


@configclass
class PhraseDescription:
    """The content of `about.json`.

    The fingerprint is None, and there are no checksums, if a system was not written by a run.
    """

    format: int = option(help="Version of the file format.", ge=0, le=1_000_000)
    # Rounding may put the BLEU of equal texts slightly above 100.
    bleu: float = option(help="BLEU of the validation text.", ge=0, le=101)
    fingerprint: str | None = option(default=None, help="Fingerprint of the training text.")
    file_checksums: Checksums = option(default=dict, help="Checksums of the config and the vocabularies.")
    weights: dict[str, Annotated[float, Field(ge=-1e30, le=1e30)]] = option(help="Feature weights.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


def source_ids(vocabulary: Vocabulary, tokens: Sequence[str]) -> list[int]:
    """Return the ids of source tokens; each distinct unknown token has a negative id: -1, -2..."""
    unknown_ids: dict[str, int] = {}
    return [
        unknown_ids.setdefault(token, -1 - len(unknown_ids)) if number == UNK else number
        for token, number in zip(tokens, vocabulary.to_ids(tokens), strict=True)
    ]


def build_decoder(
    table: PhraseTable,
    language_model: NgramLanguageModel,
    text: TextProcessor,
    weights: np.ndarray,
    config: PhraseConfig,
) -> PhraseDecoder:
    """Return the decoder that a config describes."""
    # The language model has a vocabulary of its own, as it may be estimated on more text.
    ids = np.array(language_model.ids(text.target.vocabulary.tokens), dtype=np.int64)
    limits = SearchLimits(
        config.stack_size, distortion_limit=config.distortion_limit, max_options=config.max_options
    )
    return PhraseDecoder(table, language_model, ids, weights, config.reordering == "lexicalized", limits)


def save_phrases(
    output_dir: Path,
    decoder: PhraseDecoder,
    bleu: float,
    fingerprint: str,
    file_checksums: Mapping[str, str] | None = None,
) -> None:
    """Write the tables and weights of a system to a model directory.

    Raises:
        CheckpointError: if a file cannot be written.
    """
    description = {
        "format": FORMAT_VERSION,
        "bleu": bleu,
        "fingerprint": fingerprint,
        "file_checksums": dict(file_checksums or {}),
        "weights": dict(zip(FEATURE_NAMES, decoder.weights.tolist(), strict=True)),
    }
    directory = output_dir / PHRASE_DIR
    try:
        with atomic_directory(directory) as temp_dir:
            decoder.table.save(temp_dir)
            decoder.language_model.save(temp_dir)
            checksums = compute_checksums(temp_dir, sorted(path.name for path in temp_dir.iterdir()))
            text = json.dumps({**description, "sha256": checksums}, indent=2) + "\n"
            (temp_dir / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{directory}: cannot be written: {reason}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def load_phrases(model_dir: Path, config: PhraseConfig, text: TextProcessor) -> PhraseDecoder:
    """Load the decoder of a system that `save_phrases` wrote.

    Raises:
        CheckpointError: if a file is missing, truncated or altered; the message names it.
    """
    directory = model_dir / PHRASE_DIR  # `read_description` checks it
    try:
        description = read_description(model_dir)
        files = (path.name for path in directory.glob("*.safetensors"))
        verify_checksums(directory, description.sha256, files, DESCRIPTION_FILE)
        table, language_model = PhraseTable.load(directory), NgramLanguageModel.load(directory)
        try:
            table.check(len(text.source.vocabulary), len(text.target.vocabulary))
        except DataError as error:
            raise DataError(
                f"{directory}: the phrase table does not fit the vocabularies: phrases.{error}"
            ) from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    weights = np.array([description.weights[name] for name in FEATURE_NAMES])
    return build_decoder(table, language_model, text, weights, config)


def read_description(model_dir: Path) -> PhraseDescription:
    """Read the description of a system.

    Raises:
        CheckpointError: if the directory contains no phrase-based system.
    """
    path = model_dir / PHRASE_DIR / DESCRIPTION_FILE
    try:
        directory = check_link(model_dir / PHRASE_DIR, model_dir)
        description = read_json(checked_file(directory, DESCRIPTION_FILE), PhraseDescription)
    except InvalidJsonError as error:
        raise CheckpointError(f"{path}: not the description of a phrase-based system: {error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    missing = [name for name in FEATURE_NAMES if name not in description.weights]
    if missing or description.format != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: not the description of a phrase-based system of this version of regard"
        )
    return description


@dataclass(frozen=True)
class PhraseTranslator(BaseTranslator):
    """A phrase-based system with search settings.

    The attention of a translation is derived from the word links within its phrase pairs. A target word
    distributes a total weight of 1 evenly over the source words that it is linked to. Target words without
    links and the end symbol have no attention. Scores are weighted sums of features and not normalized, so
    they rank only translations of the same sentence.

    Attributes:
        decoder: The decoder with tables and feature weights.
        text: Text processing of both sides.
        search: Search settings. `beam_size` is the number of hypotheses per stack that are extended, and
            `num_return` the number of translations returned. Apart from these, only the batch limits have an
            effect.
        num_threads: Number of CPU threads. 0 means one per processor. The translations do not depend on it.
        name: Name of the system in messages.
    """

    decoder: PhraseDecoder
    text: TextProcessor
    search: GenerationConfig
    num_threads: int = 0
    name: str = "the phrase-based system"
    search_options = frozenset(
        {"beam_size", "num_return", *(field.name for field in fields(GenerationBatchConfig))}
    )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Attention, which is derived from word links. Scores are not probabilities."""
        return frozenset({"attention"})

    def describe(self) -> Description:
        """Return the properties of the system. Its parameters are the phrase pairs."""
        return Description("phrase", num_parameters=len(self.decoder.table), attention="phrase")

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate the lines of one block."""
        untranslated = [self.tokenize(line) for line in lines]
        vocabulary = self.text.source.vocabulary
        sources = [source_ids(vocabulary, line.text_source_tokens) for line in untranslated]
        # A copy shares all tables with the decoder, so that it costs no memory.
        limits = replace(self.decoder.limits, stack_size=self.search.beam_size)
        decoder = replace(self.decoder, limits=limits)
        nbest_lists = decoder.translate(
            sources, self.search.num_return, self.num_threads or num_available_cpus()
        )
        return [
            line.with_nbest(self._detokenize(line, output) for output in outputs)
            for line, outputs in zip(untranslated, nbest_lists, strict=True)
        ]

    def _detokenize(self, line: Translation, output: PhraseTranslation) -> tuple[str, list[str], Hypothesis]:
        """Return text and tokens of a translation, with the word links of its phrases as attention."""
        target, words = self.text.target, output.words
        weights = np.zeros((len(words) + 1, 1, len(line.text_source_tokens)), dtype=np.float32)
        written: list[str] = []
        # Within a phrase, target positions count from the number of words before it.
        for phrase in output.phrases:
            for i, j in phrase.links:
                weights[len(written) + j, 0, i] = 1
            known = target.vocabulary.to_tokens([word for word in phrase.words if word != COPIED])
            written += known or [line.text_source_tokens[phrase.start]]
        sums = weights.sum(axis=2, keepdims=True)
        hypothesis = Hypothesis(
            tokens=tuple(UNK if word == COPIED else word for word in words),
            score=output.score,
            log_probability=output.score,
            token_log_probs=(),
            attention=(weights / np.maximum(sums, 1),),
        )
        return target.tokenizer.decode(written), written, hypothesis
