"""The marks that a tokenizer adds to tokens are text if they occur in the text, or unknown."""

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text import TextSide
from regard.text.tokenizers.base import create_tokenizers, learn_tokenizers
from regard.text.tokenizers.moses import MosesConfig
from regard.text.tokenizers.sentencepiece import SentencePieceConfig
from regard.text.tokenizers.subwords import BytePairConfig
from regard.text.tokenizers.words import CharactersConfig, WordsConfig
from regard.text.vocabulary import Vocabulary

MARKS = (
    "@@ ## \u2581 @-@ &apos; </w> <unk> </s> <s> <pad> <sink> [UNK] <0x41> AT&amp;T a@@ ##a \u2581a DOTMULTI"
).split(" ")
CONFIGS = {
    "words": WordsConfig(),
    "moses": MosesConfig(),
    "characters": CharactersConfig(),
    "bpe": BytePairConfig(num_merges=40),
    "bpe-words": BytePairConfig(num_merges=40, tokenized=True),
    "bpe-characters": BytePairConfig(num_merges=0, tokenized=True),
    "sentencepiece-bpe": SentencePieceConfig(vocab_size=400),
    "sentencepiece-unigram": SentencePieceConfig(vocab_size=400, model_type="unigram"),
    "sentencepiece-characters": SentencePieceConfig(vocab_size=80, byte_fallback=False),
}
# The training text contains the marks, or only ordinary words, the parts of the marks among them.
TEXTS = {
    "with marks": [f"low{mark} {mark}low {mark} lower low" for mark in MARKS] * 3,
    "without marks": ["low lower a # ## @ @@ < > / & ; u n k s ##a ["] * 3,
    "words": ["low lower lowest new newer newest"] * 3,
}


@cache
def create_side(kind, name) -> TextSide:
    config, text = CONFIGS[kind], TEXTS[name]
    start = create_tokenizers(config, config, (text, text))
    counts = Counter(unit for line in text for unit in start[0].pretokenize(line))
    tokenizer = learn_tokenizers(start, (counts, counts))[0]
    tokens = Counter(token for line in text for token in tokenizer.encode(line))
    return TextSide(tokenizer, Vocabulary.build(tokens, required_tokens=tokenizer.required_tokens))


@pytest.fixture(scope="module", params=[(kind, text) for kind in CONFIGS for text in TEXTS], ids="-".join)
def side(request) -> TextSide:
    return create_side(*request.param)


@pytest.mark.parametrize("mark", MARKS)
def test_marks_in_the_text_are_text_or_unknown(side, mark):
    for template in ("low {} low", "low{} low", "low {}low", "{0}{0} {0}a", "a{0}a {0}"):
        line = template.format(mark)
        assert side.tokenizer.decode(side.tokenizer.encode(line)) in (line, line.replace("\u2581", "<unk>"))
        decoded = side.decode(side.encode(line))
        assert decoded == line or "<unk>" in decoded


@given(words=st.lists(st.text("a@#\u2581<>", min_size=1, max_size=5), min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["bpe-words", "bpe-characters", "words", "characters"])
def test_decoding_restores_words_of_marks(kind, words):
    tokenizer = create_side(kind, "words").tokenizer
    line = " ".join(words)
    tokens = tokenizer.encode(line)
    assert tokenizer.decode(tokens) == line
    assert tokenizer.word_ids(tokens)[-1] == len(words) - 1
