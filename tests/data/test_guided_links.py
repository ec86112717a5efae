"""Tests of word links for guided alignment: their rows, their batches, and invalid links."""

from itertools import accumulate
from pathlib import Path

import pytest
import torch

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import DatasetSplit, PreparedData, prepare_data
from regard.data.fertility import Budget, ConstantFertilityConfig
from regard.data.guided_alignment import SplitLinks
from regard.data.text import TextSide
from regard.errors import DataError

SOURCE = ["a b c", "a b c d e f g", "b a", "c"]
TARGET = ["A B", "A", "B A C", "C"]
LINKS = ["0-0 1p0 2-1", "6-0", "1-2", ""]


@pytest.fixture
def made(tmp_path: Path):
    """Return a function that prepares two corpora, the second with a source prefix, and reads their links."""

    def make(links: list[str], sink: bool = False) -> tuple[DatasetSplit, SplitLinks]:
        text = {"s1": SOURCE[:2], "t1": TARGET[:2], "s2": SOURCE[2:], "t2": TARGET[2:], "links": links}
        config = write_corpora(tmp_path, text, ("1", "2"), max_length=5)
        prepared: PreparedData = prepare_data(config)
        if sink:
            size = len(prepared.text.source.vocabulary)
            prepared = prepared.with_budget(Budget.constant(ConstantFertilityConfig(), size))
        split = prepared.split("train")
        return split, SplitLinks.read(tmp_path / "links", split, config.train)

    return make


def write_corpora(directory: Path, text: dict[str, list[str]], suffixes=("",), **settings) -> DataConfig:
    """Write files, and return a configuration whose last corpus has the source prefix `<x>`."""
    for name, lines in text.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    pairs = [{"source": str(directory / f"s{end}"), "target": str(directory / f"t{end}")} for end in suffixes]
    train = [*pairs[:-1], {**pairs[-1], "source_prefix": "<x>"}]
    plain = {"cache_dir": str(directory / "p"), "train": train, "valid": pairs[0]}
    return from_dict(DataConfig, plain | settings)


def prepared_links(
    directory: Path, text: dict[str, list[str]], **settings
) -> tuple[DatasetSplit, SplitLinks]:
    """Return a split and the links of its words."""
    config = write_corpora(directory, text, **settings)
    split = prepare_data(config).split("train")
    return split, SplitLinks.read(directory / "links", split, config.train, "words")


def distributions(found: tuple[DatasetSplit, SplitLinks], rows: list[int]) -> torch.Tensor:
    """Return the links of rows with the shape of their batch."""
    split, links = found
    batch = split.batch(rows)
    assert batch.target is not None
    return links.target_distributions(rows, batch.target.tokens.shape[1], batch.source.tokens.shape[1])


def test_links_of_a_target_token_are_weighted_equally(made) -> None:
    found = made(LINKS)
    assert len(found[0]) == 3  # the second pair is too long
    links = distributions(found, [0])
    assert torch.equal(links, torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]))


def test_links_follow_their_rows_in_any_order(made) -> None:
    found = made(LINKS)
    links = distributions(found, [2, 1, 0])
    assert links.shape == (3, 4, 3)
    assert links[0].sum() == 0
    # token 1 of `b a` is at position 2, after the source prefix
    assert links[1].nonzero().tolist() == [[2, 2]]
    assert torch.equal(links[2, :3], distributions(found, [0])[0])


def test_sink_has_no_links(made) -> None:
    links = distributions(made(LINKS, sink=True), [0])
    assert links.shape == (1, 3, 4) and links[..., 3].sum() == 0


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (["3-0", *LINKS[1:]], r"links, line 1: link 3-0, but the pair has 3 source and 2 target tokens"),
        (["0-2", *LINKS[1:]], r"links, line 1: link 0-2, but the pair has 3 source and 2 target tokens"),
        ([*LINKS[:2], "2-0", ""], r"links, line 3: link 2-0, but the pair has 2 source and 3 target tokens"),
        ([*LINKS[:3], f"{10**30}-0"], r"links, line 4: '10+-0' is not a link"),
        ([LINKS[0], "0:1", *LINKS[2:]], r"links, line 2: '0:1' is not a link"),
        (LINKS[:3], r"links: 3 lines, expected 4: one per training pair"),
        ([*LINKS, "0-0"], r"links: 5 lines, expected 4: one per training pair"),
    ],
)
def test_invalid_links_are_reported_with_the_line(made, links, message) -> None:
    with pytest.raises(DataError, match=message):
        made(links)


def test_word_links_apply_to_each_of_their_subword_tokens(tmp_path: Path) -> None:
    # Without merges every subword token is one character: `aab` is a@@ a@@ b, and `cc` is c@@ c.
    text = {"s": ["aab cc d", "d aab"], "t": ["D cc", "aab D"], "links": ["0-1 2-0", "1p0"]}
    bpe = {"kind": "bpe", "num_merges": 0}
    found = prepared_links(tmp_path, text, source_tokenizer=bpe, target_tokenizer=bpe)
    # <x> a@@ a@@ b c@@ c d, and D c@@ c </s>
    first = distributions(found, [0])[0]
    assert first.shape == (4, 7)
    third = 1 / 3
    word = [0, third, third, third, 0, 0, 0]
    torch.testing.assert_close(first, torch.tensor([[0, 0, 0, 0, 0, 0, 1], word, word, [0] * 7]))
    second = distributions(found, [1])[0, :3]
    torch.testing.assert_close(second, torch.tensor([[0, 0, third, third, third]] * 3))
    text["links"] = ["0-1 3-0", "1-0"]
    with pytest.raises(DataError, match="line 1: link 3-0, but the pair has 3 source and 2 target words"):
        prepared_links(tmp_path, text, source_tokenizer=bpe, target_tokenizer=bpe)


RAW = {
    "s": ["Mr. Smith's house, 3.5 km away, burns.", "“Stop!” he cried.", "Fire, fire", "a"],
    "t": ["Das Haus, 3,5 km weg, brennt.", "„Halt!“, sagte er.", "Feuer (Feuer)", "b"],
    "links": ["2-1 3-2 4-3 6-5", "0-0 1-2 2-1", "0-0 1-1", "0-0"],
}
SIDES = [
    {"kind": "words"},
    {"kind": "characters"},
    {"kind": "moses"},
    {"kind": "bpe", "num_merges": 3},
    {"kind": "sentencepiece", "vocab_size": 300},
]


@pytest.mark.parametrize("tokenizer", SIDES, ids=lambda one: one["kind"])
def test_links_of_raw_text_count_its_words_with_every_tokenizer(tmp_path: Path, tokenizer) -> None:
    # Rare tokens are unknown; the words of their pairs are known all the same.
    tokenizers = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    split, links = prepared_links(tmp_path, RAW, **tokenizers, min_frequency=2)
    sides = split.text.source, split.text.target
    for row, line in enumerate(RAW["links"]):
        # The tokens of the words before a word and up to it are those of the text up to there.
        words = [RAW[side][row].split() for side in "st"]
        expected = set()
        for i, j in (map(int, link.split("-")) for link in line.split()):
            spans = [_span(side, own, k) for side, own, k in zip(sides, words, (i, j), strict=True)]
            expected |= {(1 + a, b) for a in spans[0] for b in spans[1]}
        assert set(map(tuple, links.pairs[links.offsets[row] : links.offsets[row + 1]].tolist())) == expected


def _span(side: TextSide, words: list[str], index: int) -> range:
    """Return the positions of the tokens of a word: its characters, and the marks of a space before it."""
    tokens = [part for unit in side.tokenizer.pretokenize(" ".join(words)) for part in _parts(side, unit)]
    texts = [token.replace("@@", "").replace("▁", "") for token in tokens]
    assert "".join(texts) == "".join(words)
    ends = list(accumulate(map(len, texts)))
    first, last = len("".join(words[:index])), len("".join(words[: index + 1]))
    inside = [k for k, end in enumerate(ends) if first < end <= last and texts[k]]
    start = inside[0]
    while start > 0 and not texts[start - 1]:
        start -= 1
    return range(start, inside[-1] + 1)


def _parts(side: TextSide, unit: str) -> list[str]:
    return [part for token in side.tokenizer.segment(unit) for part in side.split_unknown(token)]
