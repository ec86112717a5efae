"""Tests of vocabularies: special symbols, order, pruning, and files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.vocabulary import BOS, EOS, PAD, SINK, SPECIAL_TOKENS, UNK, Vocabulary

words = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1)


def test_special_symbols_have_the_first_five_ids():
    vocabulary = Vocabulary.build({"a": 3})
    assert vocabulary.to_tokens([PAD, UNK, BOS, EOS, SINK]) == ["<pad>", "<unk>", "<s>", "</s>", "<sink>"]
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "a")


def test_order_is_by_count_then_by_code_points():
    vocabulary = Vocabulary.build({"é": 2, "z": 2, "a": 1, "top": 9})
    assert vocabulary.tokens[5:] == ("top", "z", "é", "a")


def test_max_size_and_min_frequency_remove_rare_tokens():
    counts = {"a": 3, "b": 2, "c": 1}
    assert Vocabulary.build(counts, max_size=1).tokens[5:] == ("a",)
    assert Vocabulary.build(counts, min_frequency=2).tokens[5:] == ("a", "b")
    assert Vocabulary.build(counts, max_size=1, required_tokens=["<de>"]).tokens[5:] == ("<de>", "a")


def test_text_like_special_symbols_is_an_ordinary_or_unknown_token():
    assert Vocabulary.build({"a": 1}).to_ids([*SPECIAL_TOKENS, "a", "b"]) == [*[UNK] * 5, 5, UNK]
    known = Vocabulary.build({"<s>": 2, "<unk>": 1})
    assert known.to_ids(["<s>", "<unk>"]) == [5, 6]
    assert known.to_tokens([5]) == ["<s>"]


@given(st.dictionaries(words, st.integers(1, 5)))
def test_saving_and_loading_changes_nothing(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("vocabulary") / "v"
    vocabulary = Vocabulary.build(counts)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert [p.name for p in path.parent.iterdir()] == ["v"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "must start with"),
        ("\n".join(SPECIAL_TOKENS).encode(), "truncated"),
        (b"\xff\n", "byte 1"),
        ("".join(f"{t}\n" for t in (*SPECIAL_TOKENS, "a", "a")).encode(), "twice"),
        ("".join(f"{t}\n" for t in (*SPECIAL_TOKENS, "", "a")).encode(), "empty"),
    ],
)
def test_invalid_vocabulary_files_are_reported(tmp_path, content, message):
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        Vocabulary.load(path)
    assert str(path) in str(caught.value)
