"""The preprocessing pipeline: check the input, tokenize, train subword models, count, and write arrays.

The text is read twice, or three times to train SentencePiece: first to check all files and count their lines
before any slow work, then to tokenize it. Memory holds the distinct words, not the corpus. The result is
written to a temporary directory, which is renamed at the end.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.arrays import SIDES, Kept, Segments, count_units, kept_tokens, write_split
from regard.data.corpus import CorpusConfig, DataConfig, corpus_name, read_pairs
from regard.data.files import file_digest, write_atomic
from regard.data.folders import refuse_foreign, whole_folder
from regard.data.manifest import MANIFEST
from regard.data.punctuation import FormCounter, TextForm
from regard.data.text import Side, TextPair
from regard.data.tokenizer import (
    SentencePieceConfig,
    Tokenizer,
    finish_tokenizers,
    start_tokenizers,
    text_form,
)
from regard.data.tokenizers.pieces import BYTES
from regard.data.units import TAG, Progress, Units, number_units
from regard.data.unknown import UnknownCounts
from regard.data.vocabulary import SPECIALS, Vocabulary
from regard.errors import DataError
from regard.processors import available_processors

__all__ = ["build"]

_log = logging.getLogger(__name__)

EVALUATION_LENGTH = 1024
"""Maximum number of tokens of a validation or test sentence, if `max_length` of training is not higher."""
EXAMINED = 10_000
"""Number of lines per training corpus that are examined for the format of the text; see `FormCounter`."""
FEW_LINES = 20_000
"""Number of pairs up to which tokenization uses one process: starting more would take longer."""


def build(
    config: DataConfig, folder: Path, manifest: dict[str, Any], progress: Progress, processes: int | None
) -> None:
    """Preprocess the corpora into `folder`, replacing earlier preprocessed data there.

    Args:
        config: Corpora, tokenizers, vocabularies.
        folder: The output directory.
        manifest: The entries `wanted` and `inputs` of the manifest.
        progress: Called with the stage, the number of processed pairs and the total number of pairs.
        processes: Number of processes for tokenization. None chooses it by the size of the text.

    Raises:
        DataError: if an input is invalid or the output cannot be written. No partial output remains.
    """
    refuse_foreign(folder, MANIFEST, "prepared data")
    try:
        with whole_folder(folder) as into:
            # Temporary files go to the same file system and disappear with the partial directory.
            scratch = into / "scratch"
            scratch.mkdir()
            splits = _Builder(config, scratch, into, progress, processes).run()
            shutil.rmtree(scratch)
            files = {
                path.name: {"size": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(into.iterdir())
            }
            content = {**manifest, "splits": splits, "files": files}
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            write_atomic(into / MANIFEST, text.encode())
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{folder}: cannot write preprocessed data: {reason}; no files were kept") from None


class _Builder:
    """The state of one preprocessing run, shared by its stages."""

    def __init__(
        self, config: DataConfig, scratch: Path, into: Path, progress: Progress, processes: int | None
    ) -> None:
        self.config = config
        self.scratch = scratch
        self.into = into
        self.progress = progress
        self.processes = processes
        self.marks = (FormCounter(), FormCounter())
        self.corpora: dict[str, tuple[CorpusConfig, ...]] = {"train": config.train, "valid": (config.valid,)}
        if config.test is not None:
            self.corpora["test"] = (config.test,)

    def run(self) -> dict[str, Any]:
        """Run all stages and return the entry `splits` of the manifest."""
        pairs = self._survey()
        texts = (self._sample(0, pairs["train"]), self._sample(1, pairs["train"]))
        tokenizers = start_tokenizers(self.config.source_tokenizer, self.config.target_tokenizer, texts)
        units = (Units(), Units())
        for split, corpora in self.corpora.items():
            self._tokenize(split, corpora, pairs[split], tokenizers, units)
        # Byte pair encoding is learned from the unit counts, so that the text need not be read again.
        names = (list(units[0].numbers), list(units[1].numbers))
        counts = tuple(
            count_units(self.scratch, "train", side, len(units[i].numbers)) for i, side in enumerate(SIDES)
        )
        tokenizers = finish_tokenizers(tokenizers, (_table(names[0], counts[0]), _table(names[1], counts[1])))
        segments = (Segments.of(names[0], tokenizers[0]), Segments.of(names[1], tokenizers[1]))
        text = self._vocabularies(tokenizers, segments)
        text.save(self.into)
        sides = (text.source, text.target)
        # Tokens outside the vocabulary are replaced by smaller tokens, such as characters and bytes.
        segments = (segments[0].spelled(sides[0].spell), segments[1].spelled(sides[1].spell))
        ids = tuple(
            np.array(side.vocabulary.ids(s.tokens), dtype=np.int32)
            for side, s in zip(sides, segments, strict=True)
        )
        splits = {}
        for split, corpora in self.corpora.items():
            longest = self._longest(split)
            unknown = (_unknown(segments[0], sides[0]), _unknown(segments[1], sides[1]))
            kept = write_split(self.scratch, split, segments, (ids[0], ids[1]), longest, self.into, unknown)
            splits[split] = {
                "corpora": _report(split, corpora, pairs[split], kept, longest),
                "unknown": {name: side.describe() for name, side in zip(SIDES, unknown, strict=True)},
            }
            if split != "train":
                self._write_raw(split, kept)
        return splits

    def _longest(self, split: str) -> int:
        longest = self.config.max_length
        return longest if split == "train" else max(longest, EVALUATION_LENGTH)

    def _survey(self) -> dict[str, list[int]]:
        """Read all corpora to find invalid input before any slow work; return the pairs of each corpus.

        The first lines of each training corpus are also used to detect the format of the text.
        """
        counts: dict[str, list[int]] = {}
        for split, corpora in self.corpora.items():
            counts[split] = []
            for corpus in corpora:
                number = 0
                for number, pair in enumerate(read_pairs(corpus), 1):
                    if split == "train" and number <= EXAMINED:
                        for counter, line in zip(self.marks, pair, strict=True):
                            counter.add(line)
                counts[split].append(number)
        return counts

    def _forms(self) -> tuple[TextForm, TextForm]:
        """Return the format of the source and the target training text."""
        tokenizers = (self.config.source_tokenizer, self.config.target_tokenizer)
        source, target = (
            text_form(counter, tokenizer, [getattr(corpus, side) for corpus in self.config.train])
            for side, counter, tokenizer in zip(SIDES, self.marks, tokenizers, strict=True)
        )
        for side, form in zip(SIDES, (source, target), strict=True):
            if form.tokenized:
                _log.info("the %s text is tokenized: input to the model will be tokenized, too", side)
        return source, target

    def _sample(self, side: int, pairs: list[int]) -> Iterator[str]:
        """Yield evenly spaced lines of the training text, from which SentencePiece is learned."""
        tokenizer = (self.config.source_tokenizer, self.config.target_tokenizer)[side]
        most = tokenizer.sample if isinstance(tokenizer, SentencePieceConfig) else 0
        total, most = sum(pairs), min(most, sum(pairs))
        number = 0
        for corpus in self.config.train:
            for pair in read_pairs(corpus):
                # Integer arithmetic selects exactly `most` of `total` lines at equal distances.
                if (number + 1) * most // total > number * most // total:
                    yield pair[side]
                number += 1

    def _tokenize(
        self,
        split: str,
        corpora: tuple[CorpusConfig, ...],
        pairs: list[int],
        tokenizers: tuple[Tokenizer, Tokenizer],
        units: tuple[Units, Units],
    ) -> None:
        done = 0

        def tick(more: int) -> None:
            nonlocal done
            done += more
            self.progress(f"tokenizing {split}", done, sum(pairs))

        chosen = self.processes or (available_processors() if sum(pairs) > FEW_LINES else 1)
        counted = number_units(
            corpora, tokenizers, units, self.scratch, split,
            longest=self._longest(split), processes=chosen, raw=split != "train", tick=tick,
        )  # fmt: skip
        if counted != pairs:
            raise DataError(f"the {split} corpora changed during preprocessing; run it again")

    def _vocabularies(
        self, tokenizers: tuple[Tokenizer, Tokenizer], segments: tuple[Segments, Segments]
    ) -> TextPair:
        """Count the tokens of the kept training pairs and build the vocabularies."""
        found = kept_tokens(self.scratch, "train", segments, self.config.max_length)
        counts = [_known(s, c, t) for s, c, t in zip(segments, found, tokenizers, strict=True)]
        tags = tuple(dict.fromkeys(c.tag for cs in self.corpora.values() for c in cs if c.tag is not None))
        choose = partial(_vocabulary, min_count=self.config.min_count)
        if self.config.joint_vocabulary:
            # In a shared vocabulary, frequencies are summed over both sides.
            both = {token: counts[0].get(token, 0) + counts[1].get(token, 0) for c in counts for token in c}
            always = (*tokenizers[1].always, *_fallback(tokenizers[0]), *tags)
            source = target = choose(None, both, size=self.config.source_size, always=always)
        else:
            always = (*_fallback(tokenizers[0]), *tags)
            source = choose(tokenizers[0].listed, counts[0], size=self.config.source_size, always=always)
            always = tokenizers[1].always
            target = choose(tokenizers[1].listed, counts[1], size=self.config.target_size, always=always)
        forms = self._forms()
        text = TextPair(
            Side(tokenizers[0], source, tags, form=forms[0]), Side(tokenizers[1], target, form=forms[1])
        )
        for side, cut in zip((text.source, text.target), segments, strict=True):
            side.tell_unknown(cut.tokens)
        return text

    def _write_raw(self, split: str, kept: Kept) -> None:
        for side in SIDES:
            lines = open(self.scratch / f"{split}.{side}.raw", "rb")
            with lines, open(self.into / f"{split}.{side}.txt", "wb") as file:
                file.writelines(line for line, keep in zip(lines, kept.keep, strict=True) if keep)


def _table(names: Sequence[str], counts: np.ndarray) -> dict[str, int]:
    """Return the counts of units that occur in the training text, without tags."""
    return {n: int(c) for n, c in zip(names, counts, strict=True) if c and not n.startswith(TAG)}


def _fallback(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the character and byte tokens of a tokenizer with byte fallback, else an empty tuple."""
    return tokenizer.always if set(BYTES) <= set(tokenizer.always) else ()


def _unknown(segments: Segments, side: Side) -> UnknownCounts:
    return UnknownCounts(segments.tokens, side.vocabulary, bool(_fallback(side.tokenizer)))


def _known(segments: Segments, counts: np.ndarray, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the counts of tokens that may enter the vocabulary."""
    inventory = tokenizer.inventory
    pairs = zip(segments.tokens, counts, strict=True)
    return {
        token: int(count) for token, count in pairs if count and (inventory is None or token in inventory)
    }


def _vocabulary(
    listed: tuple[str, ...] | None, counts: dict[str, int], *, always: Sequence[str], **rules: Any
) -> Vocabulary:
    """Return the vocabulary of a pre-trained tokenizer, or else build one from counts.

    Raises:
        DataError: if a tag is not a token of the pre-trained tokenizer.
    """
    if listed is None:
        return Vocabulary.build(counts, always=always, **rules)
    unknown = sorted(set(always) - set(listed))
    if unknown:
        raise DataError(f"tag {unknown[0]!r}: not a token of the pre-trained tokenizer")
    return Vocabulary((*SPECIALS, *listed))


def _report(
    split: str, corpora: Sequence[CorpusConfig], pairs: list[int], kept: Kept, longest: int
) -> list[dict[str, Any]]:
    """Log the number of kept and dropped pairs per corpus, and return them for the manifest.

    Raises:
        DataError: if no pair of the split is kept.
    """
    report = []
    start = 0
    for corpus, count in zip(corpora, pairs, strict=True):
        rows = slice(start, start + count)
        start += count
        numbers = {name: int(getattr(kept, field)[rows].sum()) for name, field in _COUNTED}
        report.append({"name": corpus_name(corpus), "pairs": count, **numbers, "weight": corpus.weight})
        dropped = numbers["empty"] + numbers["too_long"]
        log: Callable[..., None] = _log.warning if dropped else _log.info
        log(
            "%s: %d of %d %s pairs kept; %d dropped with an empty side, %d with more than %d tokens",
            corpus_name(corpus),
            numbers["kept"],
            count,
            split,
            numbers["empty"],
            numbers["too_long"],
            longest,
        )
    if not kept.keep.any():
        names = ", ".join(corpus_name(corpus) for corpus in corpora)
        raise DataError(
            f"{names}: no {split} pair is left: each has an empty side or more than {longest} tokens"
        )
    return report


_COUNTED = (("kept", "keep"), ("empty", "empty"), ("too_long", "long"))
