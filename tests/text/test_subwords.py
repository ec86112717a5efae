"""Tests of WordPiece: the algorithm of BERT, round trips, and deterministic training."""

import os
import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'regard[hf]'")


from regard.errors import UsageError
from regard.text.tokenizers.subwords import WordPieceConfig, WordPieceTokenizer

TEXT = ["lower lowest newer newest wider widest", "Das ist's ! Er ging und lief ."] * 3
CONFIG = WordPieceConfig(vocab_size=60, tokenized=True)


def learned(config=CONFIG, text=TEXT):
    return WordPieceTokenizer(config).learn(Counter(word for line in text for word in line.split()))


@pytest.fixture(scope="module")
def tokenizer():
    return learned()


def test_words_are_split_into_the_longest_tokens_from_the_left():
    """The example of the maximum matching algorithm of Devlin et al. (2019) in BERT's code: unaffable."""
    tokens = ["un", "##aff", "##able", "u", "##n", "##a", "##f", "##b", "##l", "##e", "##affx"]
    tokenizer = WordPieceTokenizer(CONFIG, "\n".join(tokens).encode())
    assert tokenizer.encode("unaffable") == ["un", "##aff", "##able"]
    assert tokenizer.encode("unaffableX un") == ["unaffableX", "un"]
    assert tokenizer.word_ids(["un", "##aff", "##able", "un", "u", "##n"]) == [0, 0, 0, 1, 2, 2]
    assert tokenizer.decode(["un", "##aff", "##able", "un"]) == "unaffable un"


def test_result_equals_the_tokenizer_of_bert(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("\n".join([*names, *tokenizer.tokens]) + "\n", encoding="utf-8")
    bert = transformers.BertTokenizer(
        str(tmp_path / "vocab.txt"), do_lower_case=False, strip_accents=False, tokenize_chinese_chars=False
    )
    for line in ("lower slower widest", "Er lief , newer und lowest ."):
        found = tokenizer.encode(line)
        assert bert.tokenize(line) == [token if token in tokenizer.tokens else "[UNK]" for token in found]


def test_frequent_words_become_tokens_up_to_the_size(tokenizer):
    assert len(tokenizer.tokens) <= 60 and len(set(tokenizer.tokens)) == len(tokenizer.tokens)
    assert {"l", "##o", "##r", "D"} < set(tokenizer.tokens)
    large = learned(WordPieceConfig(vocab_size=500, tokenized=True))
    assert {"lowest", "newer", "ging"} <= set(large.tokens)
    # All characters are kept.
    small = learned(WordPieceConfig(vocab_size=1, tokenized=True))
    assert small.encode("new") == ["n", "##e", "##w"]
    assert learned(text=[""]).tokens == ()


def test_training_does_not_depend_on_hash_tables():
    counts = Counter(word for line in TEXT for word in line.split())
    code = (
        "from regard.text.tokenizers.subwords import *; "
        "config = WordPieceConfig(vocab_size=60, tokenized=True); "
        f"print(WordPieceTokenizer(config).learn({dict(counts)}).tokens)"
    )
    expected = WordPieceTokenizer(CONFIG).learn(counts).tokens
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed},
        )  # fmt: skip
        assert found.stdout.strip() == str(expected)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match="hf"):
        learned()
