"""The preprocessing pipeline: check the input, tokenize, train subword models, count, and write arrays.

The text is read twice, or three times to train SentencePiece: first to check all files and count their lines
before any slow work, then to tokenize it. Memory holds the distinct words, not the corpus. The result is
written to a temporary directory, which is renamed at the end.
"""

import itertools
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.cpu_threads import num_available_cpus
from regard.data.arrays import (
    PAIR_OUTCOMES,
    SIDES,
    TAG_PREFIX,
    ProgressCallback,
    SegmentedUnits,
    UnitNumbers,
    count_kept_tokens,
    count_units,
    tokenize_pairs,
    write_split,
)
from regard.data.config import MANIFEST, DataConfig
from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.text.corpus import CorpusConfig, corpus_name, read_pairs, read_segments
from regard.text.files import atomic_directory, check_replaceable, write_atomic
from regard.text.reading import file_digest
from regard.text.tokenizers.base import (
    TextFormat,
    TextFormatDetector,
    Tokenizer,
    create_tokenizers,
    detect_text_format,
    learn_tokenizers,
)
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from regard.text.workers import ordered_map

_log = logging.getLogger(__name__)

MAX_EVALUATION_LENGTH = 1024
"""Maximum number of tokens of a validation or test sentence, if `max_length` of training is not higher."""
FORMAT_DETECTION_LINES = 10_000
"""Number of lines per training corpus that `TextFormatDetector` examines."""
CHUNK_LINES = 4096
"""Number of lines in a chunk that is tokenized at once."""
SINGLE_PROCESS_PAIRS = 20_000
"""Number of pairs up to which tokenization uses one process: starting more would take longer."""


def preprocess(
    config: DataConfig,
    output_dir: Path,
    manifest: dict[str, Any],
    progress: ProgressCallback,
) -> None:
    """Preprocess the corpora into `output_dir`, replacing earlier preprocessed data there.

    Args:
        config: Corpora, tokenizers, vocabularies.
        output_dir: The output directory.
        manifest: The entries `wanted` and `inputs` of the manifest.
        progress: Called with the stage, the number of processed pairs and the total number of pairs.

    Raises:
        DataError: if an input is invalid or the output cannot be written. No partial output remains.
    """
    check_replaceable(output_dir, MANIFEST, "prepared data")
    try:
        with atomic_directory(output_dir) as temporary_dir:
            # Temporary files go to the same file system and disappear with the partial directory.
            scratch = temporary_dir / "scratch"
            scratch.mkdir()
            splits = _Preprocessor(config, scratch, temporary_dir, progress).run()
            shutil.rmtree(scratch)
            files = {
                path.name: {"size": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(temporary_dir.iterdir())
            }
            content = {**manifest, "splits": splits, "files": files}
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            write_atomic(temporary_dir / MANIFEST, text.encode())
    except OSError as error:
        reason = error.strerror or error
        raise DataError(
            f"{output_dir}: cannot write preprocessed data: {reason}; no files were kept"
        ) from None


@dataclass
class _Preprocessor:
    """The state of one preprocessing run, shared by its stages."""

    config: DataConfig
    scratch: Path
    temporary_dir: Path
    progress: ProgressCallback

    def __post_init__(self) -> None:
        config = self.config
        self.format_detectors = (TextFormatDetector(), TextFormatDetector())
        self.corpora = {"train": config.train, "valid": (config.valid,)}
        if config.test is not None:
            self.corpora["test"] = (config.test,)
        evaluation_length = max(config.max_length, MAX_EVALUATION_LENGTH)
        self.max_lengths = {name: evaluation_length for name in self.corpora} | {"train": config.max_length}

    def run(self) -> dict[str, Any]:
        """Run all stages and return the entry `splits` of the manifest."""
        pairs = self._survey()
        texts = (self._sample(0, pairs["train"]), self._sample(1, pairs["train"]))
        tokenizers = create_tokenizers(self.config.source_tokenizer, self.config.target_tokenizer, texts)
        units = (UnitNumbers(), UnitNumbers())
        for split in self.corpora:
            self._tokenize(split, pairs[split], tokenizers, units)
        # Byte pair encoding is learned from the unit counts, so that the text need not be read again.
        counts = (self._count_units("source", units[0]), self._count_units("target", units[1]))
        tokenizers = learn_tokenizers(tokenizers, counts)
        segments = (
            SegmentedUnits.from_units(list(units[0]), tokenizers[0]),
            SegmentedUnits.from_units(list(units[1]), tokenizers[1]),
        )
        text = self._vocabularies(tokenizers, segments)
        text.save(self.temporary_dir)
        sides = (text.source, text.target)
        # Tokens outside the vocabulary are replaced by smaller tokens, such as characters and bytes.
        segments = (segments[0].respell(sides[0].split_unknown), segments[1].respell(sides[1].split_unknown))
        token_ids = tuple(
            np.array(side.vocabulary.to_ids(s.tokens), dtype=np.int32)
            for side, s in zip(sides, segments, strict=True)
        )
        splits = {}
        for split, corpora in self.corpora.items():
            max_length = self.max_lengths[split]
            ids = (token_ids[0], token_ids[1])
            outcomes, unknown = write_split(
                self.scratch, split, segments, ids, max_length, self.temporary_dir
            )
            report = _report(split, corpora, pairs[split], outcomes, max_length)
            splits[split] = {"corpora": report, "unknown": unknown}
            if split != "train":
                self._write_raw(split, outcomes)
        return splits

    def _survey(self) -> dict[str, list[int]]:
        """Read all corpora to find invalid input before any slow work; return the pairs of each corpus.

        The first lines of each training corpus are also used to detect the format of the text.
        """
        counts: dict[str, list[int]] = {}
        for split, corpora in self.corpora.items():
            counts[split] = []
            for corpus in corpora:
                number = 0
                for number, segment in enumerate(read_segments(corpus), 1):
                    if split == "train" and number <= FORMAT_DETECTION_LINES:
                        sides = segment.source, segment.target
                        for detector, line in zip(self.format_detectors, sides, strict=True):
                            detector.add(line)
                counts[split].append(number)
        return counts

    def _text_formats(self) -> tuple[TextFormat, TextFormat]:
        """Return the format of the source and the target training text."""
        tokenizers = (self.config.source_tokenizer, self.config.target_tokenizer)
        source, target = (
            detect_text_format(detector, tokenizer, [getattr(corpus, side) for corpus in self.config.train])
            for side, detector, tokenizer in zip(SIDES, self.format_detectors, tokenizers, strict=True)
        )
        for side, text_format in zip(SIDES, (source, target), strict=True):
            if text_format.tokenized:
                _log.info("the %s text is tokenized: input to the model will be tokenized, too", side)
            if text_format.lowercase:
                _log.info("the %s text is lowercased: input to the model will be lowercased, too", side)
        return source, target

    def _sample(self, side: int, pairs: list[int]) -> Iterator[str]:
        """Yield evenly spaced lines of the training text, from which a tokenizer is trained."""
        tokenizer = (self.config.source_tokenizer, self.config.target_tokenizer)[side]
        max_lines = getattr(tokenizer, "max_training_lines", 0)
        total, max_lines = sum(pairs), min(max_lines, sum(pairs))
        number = 0
        for corpus in self.config.train:
            for pair in read_pairs(corpus):
                # Integer arithmetic selects exactly `max_lines` of `total` lines at equal distances.
                if (number + 1) * max_lines // total > number * max_lines // total:
                    yield pair[side]
                number += 1

    def _tokenize(
        self,
        split: str,
        pairs: list[int],
        tokenizers: tuple[Tokenizer, Tokenizer],
        units: tuple[UnitNumbers, UnitNumbers],
    ) -> None:
        """Number new units, and write those of a split to `SPLIT.SIDE.units` and `SPLIT.SIDE.sizes`.

        Raises:
            DataError: if a line does not have the format of its tokenizer. The message gives file and line.
        """
        total, counts = sum(pairs), []
        num_processes = num_available_cpus() if total > SINGLE_PROCESS_PAIRS else 1
        if any(type(tokenizer).__module__ == "__main__" for tokenizer in tokenizers):
            num_processes = 1  # another process cannot import the class of a script or a notebook
        tokenize = partial(tokenize_pairs, tokenizers, self.max_lengths[split])
        with ExitStack() as opened:
            files = [
                [
                    opened.enter_context(open(self.scratch / f"{split}.{side}.{kind}", "wb"))
                    for kind in ("units", "sizes")
                ]
                for side in SIDES
            ]
            for corpus in self.corpora[split]:
                checked = _checked(corpus, tokenizers)
                chunks = iter(lambda checked=checked: list(islice(checked, CHUNK_LINES)), [])
                counts.append(0)
                prefixes = corpus.source_prefix, None
                for sides in ordered_map(tokenize, chunks, num_processes):
                    for side, lines in enumerate(sides):
                        units[side].append(lines, prefixes[side], files[side])
                    counts[-1] += len(sides[0])
                    self.progress(f"tokenizing {split}", sum(counts), total)
        # The files were read a second time; the arrays must agree with the first reading.
        if counts != pairs:
            raise DataError(f"the {split} corpora changed during preprocessing; run it again")

    def _count_units(self, side: str, units: UnitNumbers) -> dict[str, int]:
        """Return the counts of the units of the training text, without source prefixes."""
        counts = count_units(self.scratch, "train", side, len(units)).tolist()
        pairs = zip(units, counts, strict=True)
        return {unit: count for unit, count in pairs if count and not unit.startswith(TAG_PREFIX)}

    def _vocabularies(
        self, tokenizers: tuple[Tokenizer, Tokenizer], segments: tuple[SegmentedUnits, SegmentedUnits]
    ) -> TextProcessor:
        """Count the tokens of the kept training pairs and build the vocabularies."""
        kept_counts = count_kept_tokens(self.scratch, "train", segments, self.config.max_length)
        counts = [_known(s, c, t) for s, c, t in zip(segments, kept_counts, tokenizers, strict=True)]
        prefixes = tuple(
            dict.fromkeys(
                c.source_prefix for cs in self.corpora.values() for c in cs if c.source_prefix is not None
            )
        )
        build = partial(_vocabulary, min_frequency=self.config.min_frequency)
        required = ((*tokenizers[0].required_tokens, *prefixes), tokenizers[1].required_tokens)
        sizes = (self.config.source_vocab_size, self.config.target_vocab_size)
        if self.config.shared_vocab:
            # In a shared vocabulary, frequencies are summed over both sides.
            both = {token: counts[0].get(token, 0) + counts[1].get(token, 0) for c in counts for token in c}
            source = target = build(
                None, both, max_size=sizes[0], required_tokens=(*required[1], *required[0])
            )
        else:
            source, target = (
                build(tokenizer.pretrained_tokens, freqs, max_size=size, required_tokens=tokens)
                for tokenizer, freqs, size, tokens in zip(tokenizers, counts, sizes, required, strict=True)
            )
        text_formats = self._text_formats()
        return TextProcessor(
            TextSide(tokenizers[0], source, prefixes, text_format=text_formats[0]),
            TextSide(tokenizers[1], target, text_format=text_formats[1]),
        )

    def _write_raw(self, split: str, outcomes: np.ndarray) -> None:
        """Write the lines of the kept pairs, so that lines and rows agree."""
        pairs = list(itertools.chain.from_iterable(map(read_pairs, self.corpora[split])))
        if len(pairs) != len(outcomes):
            raise DataError(f"the {split} corpora changed during preprocessing; run it again")
        rows = [pair for pair, outcome in zip(pairs, outcomes, strict=True) if outcome == 0]
        for side, name in enumerate(SIDES):
            text = "".join(f"{pair[side]}\n" for pair in rows)
            (self.temporary_dir / f"{split}.{name}.txt").write_bytes(text.encode())


def _checked(corpus: CorpusConfig, tokenizers: tuple[Tokenizer, Tokenizer]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a corpus after checking that they have the format of the tokenizers."""
    for segment in read_segments(corpus, logging.DEBUG):
        pair = segment.source, segment.target
        for tokenizer, line, name in zip(tokenizers, pair, (corpus.source, corpus.target), strict=True):
            problem = tokenizer.format_error(line)
            if problem is not None:
                raise DataError(f"{corpus.file or name}: line {segment.line}: {problem}")
        yield pair


def _known(segments: SegmentedUnits, counts: np.ndarray, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the counts of tokens that may enter the vocabulary."""
    inventory = tokenizer.inventory
    pairs = zip(segments.tokens, counts, strict=True)
    return {
        token: int(count) for token, count in pairs if count and (inventory is None or token in inventory)
    }


def _vocabulary(
    pretrained_tokens: tuple[str, ...] | None,
    counts: dict[str, int],
    *,
    required_tokens: Sequence[str],
    **rules: Any,
) -> Vocabulary:
    """Return the vocabulary of a pre-trained tokenizer, or else build one from counts.

    Raises:
        DataError: if a source prefix is not a token of the pre-trained tokenizer.
    """
    if pretrained_tokens is None:
        return Vocabulary.build(counts, required_tokens=required_tokens, **rules)
    unknown = sorted(set(required_tokens) - set(pretrained_tokens))
    if unknown:
        raise DataError(
            f"source_prefix {unknown[0]!r}: not a token of the pre-trained tokenizer; use one of its tokens"
        )
    return Vocabulary((*SPECIAL_TOKENS, *pretrained_tokens))


def _report(
    split: str, corpora: Sequence[CorpusConfig], pairs: list[int], outcomes: np.ndarray, max_length: int
) -> list[dict[str, Any]]:
    """Log the number of kept and dropped pairs per corpus, and return them for the manifest.

    Raises:
        DataError: if no pair of the split is kept.
    """
    report = []
    ends = np.cumsum(pairs)
    for corpus, count, part in zip(corpora, pairs, np.split(outcomes, ends[:-1]), strict=True):
        name = corpus_name(corpus)
        numbers = dict(zip(PAIR_OUTCOMES, np.bincount(part, minlength=3).tolist(), strict=True))
        report.append({"name": name, "pairs": count, **numbers, "weight": corpus.sampling_weight})
        _log.log(
            # Dropped pairs are a warning, because they often show that files are not parallel.
            logging.INFO if numbers["kept"] == count else logging.WARNING,
            "%s: %d of %d %s pairs kept; %d dropped with an empty side, %d with more than %d tokens",
            *(name, numbers["kept"], count, split, numbers["empty"], numbers["too_long"], max_length),
        )
    if (outcomes != 0).all():
        names = ", ".join(map(corpus_name, corpora))
        raise DataError(
            f"{names}: no {split} pair is left: each has an empty side or more than {max_length} tokens"
        )
    return report
