"""Tests of text pairs: encoding, decoding, saving, and loading."""

from dataclasses import replace

import pytest

from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.text.tokenizers.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK, Vocabulary


@pytest.fixture
def words():
    return TextSide(WordsTokenizer(WordsConfig()), Vocabulary.build({"a": 3, "b": 2, "<s>": 1}))


@pytest.fixture
def pair():
    config = SentencePieceConfig(vocab_size=290)
    source = SentencePieceTokenizer.create(config, ["ein Haus", "zwei Häuser"] * 4, "source")
    target = BytePairTokenizer(BytePairConfig(num_merges=10)).learn({"house": 4, "houses": 4})
    prefixed = Vocabulary.build(dict.fromkeys(source.inventory, 1), required_tokens=["<bt>"])
    plain = Vocabulary.build(dict.fromkeys(target.encode("one two house houses"), 1))
    return TextProcessor(TextSide(source, prefixed, ("<bt>",)), TextSide(target, plain))


def test_decoding_omits_special_symbols_but_shows_unknown_words(words):
    assert words.encode("a c b") == [5, UNK, 6]
    assert words.decode([BOS, 5, UNK, 6, SINK, EOS, PAD]) == "a <unk> b"


def test_saving_and_loading_changes_nothing(pair, tmp_path):
    pair.save(tmp_path)
    again = TextProcessor.load(tmp_path)
    assert again.source.encode("<bt> zwei Haus") == pair.source.encode("<bt> zwei Haus")
    assert again.target.decode(again.target.encode("two houses")) == "two houses"
    assert again.source.vocabulary == pair.source.vocabulary
    assert again.target.vocabulary == pair.target.vocabulary
    assert again.source.source_prefixes == ("<bt>",)


@pytest.mark.parametrize(
    "name", ["text.json", "source.vocabulary", "target.vocabulary", "source.sentencepiece", "target.bpe"]
)
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_files_are_reported(pair, tmp_path, name, damage):
    pair.save(tmp_path)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-3])
    else:
        content[0] ^= 1
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        TextProcessor.load(tmp_path)
    assert str(path) in str(caught.value)


def test_other_merges_change_the_checksum_and_are_a_difference(pair, tmp_path):
    pair.save(tmp_path)
    same = TextProcessor.load(tmp_path)
    assert same.checksum == pair.checksum and same.difference(pair, "x") is None
    tokenizer = BytePairTokenizer(BytePairConfig(num_merges=2)).learn({"house": 4})
    other = replace(pair, target=replace(pair.target, tokenizer=tokenizer))
    assert other.target.encode("house") != pair.target.encode("house")
    assert other.vocabulary_difference(pair, "x") is None
    assert other.checksum != pair.checksum
    assert other.difference(pair, "x") == "its target tokenizer differs from that of x"
