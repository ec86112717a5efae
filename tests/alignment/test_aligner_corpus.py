"""Tests of the aligner's corpus: word numbering, file formats and errors."""

import pytest

from regard.alignment.corpus import UNKNOWN, Corpus
from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.dataset import prepare_data
from regard.errors import DataError
from regard.text.corpus import CorpusConfig

PAIRS = [("b a b".split(), "x".split()), ("a b".split(), "y x".split())]


def spelled(text, row):
    return [text.words.words[number] for number in text.sentence(row)]


def test_words_are_numbered_by_frequency():
    corpus = Corpus.from_tokens(PAIRS)
    for row, (source, target) in enumerate(PAIRS):
        assert spelled(corpus.source, row) == source and spelled(corpus.target, row) == target
    assert corpus.source.words.words == ("b", "a")
    assert corpus.target.words.words == ("x", "y")
    assert corpus.source.offsets.tolist() == [0, 3, 5]


def test_given_vocabulary_keeps_numbers_and_maps_other_words_to_unknown():
    words = Corpus.from_tokens(PAIRS)
    known = Corpus.from_tokens([(["a", "c"], ["y"])], (words.source.words, words.target.words))
    assert known.source.tokens.tolist() == [1, UNKNOWN]


def test_part_selects_pairs_and_swapped_exchanges_sides():
    corpus = Corpus.from_tokens(PAIRS)
    assert spelled(corpus.subset(1, 2).target, 0) == ["y", "x"]
    assert spelled(corpus.swapped().source, 1) == ["y", "x"]


def test_empty_side_raises_with_file_and_line(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a\nb\n")
    target.write_text("x\n \n")
    with pytest.raises(DataError, match=r"t:2: the line is empty"):
        Corpus.read(files := CorpusConfig(source=str(source), target=str(target)))
    assert len(Corpus.read(files, allow_empty=True)) == 2
    table = tmp_path / "t.tsv"
    table.write_text("source\ttarget\na\tb\nc\t\n")
    with pytest.raises(DataError, match=r"t.tsv:3: the line is empty"):
        Corpus.read(CorpusConfig(file=str(table)))
    with pytest.raises(DataError, match="no sentence pair"):
        Corpus.from_tokens([])


def test_prepared_data_gives_the_same_sentences_without_eos(tmp_path):
    for name, lines in (("s", "b a b\na b\n"), ("t", "x\ny x\n")):
        (tmp_path / name).write_text(lines)
    files = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
    config = from_dict(DataConfig, {"train": [files], "valid": files, "cache_dir": str(tmp_path / "data")})
    corpus = prepare_data(config).alignment_corpus()
    for row, (source, target) in enumerate(PAIRS):
        assert spelled(corpus.source, row) == source and spelled(corpus.target, row) == target
