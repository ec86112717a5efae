"""Tests of the tokenizers: round trips, word ids, saving, marks, and agreement with references."""

import contextlib
import io
import pickle
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
import sacremoses
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from regard.data.text import TextSide
from regard.errors import DataError
from regard.text.tokenizers.base import TOKENIZERS, create_tokenizers, learn_tokenizers
from regard.text.tokenizers.moses import MosesConfig
from regard.text.tokenizers.sentencepiece import SentencePieceConfig, SentencePieceTokenizer
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import ActionsConfig, CharactersConfig, InflectionConfig, WordsConfig
from regard.text.vocabulary import UNK, Vocabulary
from regard.text.words import normalize_whitespace

TEXT = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    'Er sagte: "Das ist\'s!" (Und ging.)',
    "lower lowest newer newest wider widest",
] * 3
CONFIGS = {
    "words": WordsConfig(),
    "moses": MosesConfig(language="de"),
    "bpe": BytePairConfig(language="de", num_merges=30),
    "bpe-words": BytePairConfig(num_merges=30, tokenized=True),
    "sentencepiece-bpe": SentencePieceConfig(vocab_size=320),
    "sentencepiece-unigram": SentencePieceConfig(vocab_size=320, model_type="unigram"),
    "characters": CharactersConfig(),
    "inflection": InflectionConfig(),
    "actions": ActionsConfig(),
}


def learned(config, text=TEXT):
    start = create_tokenizers(config, config, (text, text))
    counts = Counter(unit for line in text for unit in start[0].pretokenize(line))
    return learn_tokenizers(start, (counts, counts))[0]


@cache
def _cached(kind):
    return learned(CONFIGS[kind])


@pytest.fixture(params=CONFIGS)
def tokenizer(request):
    return _cached(request.param)


lines = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2581"), max_size=40)
any_lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=40)


@given(line=lines)
@pytest.mark.parametrize("kind", ["words", "characters", "bpe-words"])
def test_decoding_restores_the_line_up_to_white_space(kind, line):
    tokenizer = _cached(kind)
    expected = normalize_whitespace(line)
    assert tokenizer.decode(tokenizer.encode(line)) == expected


@given(
    line=any_lines | st.sampled_from(["<0x41> <unk>", "\u2581 a\u2581\u2581", "\ue000\u2581\ue001", "\u2585"])
)
@pytest.mark.parametrize("kind", ["sentencepiece-bpe", "sentencepiece-unigram"])
def test_sentencepiece_ids_restore_any_line_up_to_white_space(kind, line):
    tokenizer = _cached(kind)
    # The smallest vocabularies that preprocessing can choose: no token was counted in the training text.
    for vocabulary in (
        Vocabulary.build({}, required_tokens=tokenizer.required_tokens),
        Vocabulary.build({}, required_tokens=tokenizer.inventory),
    ):
        side = TextSide(tokenizer, vocabulary)
        ids = side.encode(line)
        assert UNK not in ids
        assert side.decode(ids) == normalize_whitespace(line)


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_spaces_that_are_not_ascii_are_part_of_a_word_and_control_characters_separate_words(kind, space):
    tokenizer, line = _cached(kind), f"10{space}000  apples"
    tokens = tokenizer.encode(line)
    assert tokenizer.decode(tokens) == normalize_whitespace(line)
    if not tokenizer.tokens_are_words:
        assert tokenizer.word_ids(tokens)[-1] == 1  # the same number of words as in a file of links
    assert tokenizer.decode(tokenizer.encode("a\0b\x1bc\x85d")) == "a b c d"


def test_every_character_is_a_subword_token_except_in_very_large_scripts():
    def characters(text):
        inventory = learned(SentencePieceConfig(vocab_size=3000), text).inventory
        return {token for token in inventory if len(token) == 1} - {"\u2581"}

    rare = ["ab " * 500] * 10 + ["\u00dc"]
    assert characters(rare) == {"a", "b", "\u00dc"}
    many = ["".join(chr(0x4E00 + 10 * k + i) for i in range(10)) for k in range(200)] * 20 + ["\u00dc"]
    assert "\u00dc" not in characters(many)


def test_unknown_characters_are_bytes_or_stay_unchanged_without_byte_fallback():
    tokenizer = _cached("sentencepiece-bpe")
    assert tokenizer.decode(["\u2581Zwei", "<0xC3>", "\u2581xyz"]) == "Zwei\ufffd xyz"
    tokenizer = learned(SentencePieceConfig(vocab_size=60, byte_fallback=False))
    assert tokenizer.encode("\u65e5")[-1] == "\u65e5"
    assert not tokenizer.required_tokens


@given(line=st.text(max_size=40))
@pytest.mark.parametrize("kind", CONFIGS)
def test_tokens_are_not_empty_and_word_ids_have_no_gaps(kind, line):
    tokenizer = _cached(kind)
    line = line.replace("\n", " ").replace("\r", " ")
    tokens = tokenizer.encode(line)
    assert all(tokens) and not any("\n" in token for token in tokens)
    assert isinstance(tokenizer.decode(tokens), str)
    words = tokenizer.word_ids(tokens)
    assert len(words) == len(tokens)
    assert all(b - a in (0, 1) for a, b in pairwise(words))
    assert words[:1] in ([], [0])


def test_empty_lines_have_no_tokens(tokenizer):
    assert tokenizer.encode("") == tokenizer.encode("   ") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.word_ids([]) == []


def test_saving_loading_and_pickling_change_nothing(tokenizer, tmp_path):
    tokenizer.save(tmp_path, "source")
    assert all(path.name.startswith("source.") for path in tmp_path.iterdir())
    for again in (
        type(tokenizer).load(tokenizer.config, tmp_path, "source"),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert [again.encode(line) for line in TEXT] == [tokenizer.encode(line) for line in TEXT]


@pytest.mark.parametrize("kind", CONFIGS)
def test_learning_is_deterministic(kind):
    first, second = learned(CONFIGS[kind]), learned(CONFIGS[kind])
    assert [first.encode(line) for line in TEXT] == [second.encode(line) for line in TEXT]


def test_bpe_equals_subword_nmt_on_moses_tokens():
    rules = sacremoses.MosesTokenizer("de")
    tokenized = [rules.tokenize(line, escape=False, return_str=True) for line in TEXT]
    codes = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(tokenized, codes, 30)
    expected = BPE(io.StringIO(codes.getvalue()))
    ours = learned(CONFIGS["bpe"])
    assert ours.learned.decode() == codes.getvalue()
    for line in tokenized:
        assert " ".join(ours.encode(line)) == expected.process_line(line)


def test_bpe_marks_and_joins_subwords():
    # The dictionary of Sennrich et al. (2016), Algorithm 1, with merges s t (9 times), e st (9), l o (7).
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    tokenizer = BytePairTokenizer(BytePairConfig(num_merges=3)).learn(counts)
    assert tokenizer.encode("lowest low") == ["lo@@", "w@@", "est", "lo@@", "w"]
    assert tokenizer.decode(["lo@@", "w@@", "est", "lo@@", "w"]) == "lowest low"
    assert tokenizer.word_ids(["lo@@", "w@@", "est", "lo@@", "w"]) == [0, 0, 0, 1, 1]


def test_joint_sentencepiece_is_learned_from_both_sides():
    config = SentencePieceConfig(vocab_size=300)
    source, target = create_tokenizers(config, config, (["abcab"] * 5, ["xyxy"] * 5))
    assert source.learned == target.learned
    assert {"b", "y"} <= source.inventory
    with pytest.raises(DataError, match="smaller than required"):
        SentencePieceTokenizer.create(SentencePieceConfig(vocab_size=3), TEXT, "source")
    apart = SentencePieceConfig(vocab_size=300, joint=False)
    source, target = create_tokenizers(apart, apart, (["abcab"] * 5, ["xyxy"] * 5))
    assert "y" not in source.inventory and "b" not in target.inventory


@pytest.mark.parametrize(
    ("name", "config", "content"),
    [
        ("source.bpe", BytePairConfig(), b"#version: 0.2\na b c\n"),
        ("source.bpe", BytePairConfig(), b"\xff"),
        ("source.sentencepiece", SentencePieceConfig(), b"not a model"),
        ("source.sentencepiece", SentencePieceConfig(), None),
    ],
)
def test_damaged_files_are_reported(tmp_path, name, config, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        TOKENIZERS.part_of(config).load(config, tmp_path, "source")


def test_source_prefix_is_one_token_with_every_tokenizer(tokenizer):
    counts = Counter(tokenizer.encode("Zwei Männer"))
    side = TextSide(tokenizer, Vocabulary.build(counts, required_tokens=["<2de>"]), ("<2de>",))
    tokens = side.tokenize("<2de> Zwei Männer")
    assert tokens == ["<2de>", *tokenizer.encode("Zwei Männer")]
    assert side.encode("<2de>") == [5]
    assert side.word_ids(tokens)[:2] == [0, 1]
    assert side.tokenize("") == []


def test_step_actions_belong_to_the_current_word():
    side = learned(ActionsConfig())
    assert side.word_ids(side.encode("a→b→→ c→")) == [0, 0, 0, 0, 0, 1, 1, 1]


MARKS = (
    "@@ ## \u2581 @-@ &apos; </w> <unk> </s> <s> <pad> <sink> [UNK] <0x41> AT&amp;T a@@ ##a \u2581a DOTMULTI"
).split(" ")
MARKED = {kind: config for kind, config in CONFIGS.items() if kind not in ("inflection", "actions")} | {
    "bpe-characters": BytePairConfig(num_merges=0, tokenized=True),
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
    tokenizer = learned(MARKED[kind], TEXTS[name])
    tokens = Counter(token for line in TEXTS[name] for token in tokenizer.encode(line))
    return TextSide(tokenizer, Vocabulary.build(tokens, required_tokens=tokenizer.required_tokens))


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize("name", TEXTS)
def test_marks_in_the_text_are_text_or_unknown(kind, name):
    side = create_side(kind, name)
    for mark in MARKS:
        for template in ("low {} low", "low{} low", "low {}low", "{0}{0} {0}a", "a{0}a {0}"):
            line = template.format(mark)
            text, decoded = side.tokenizer.decode(side.tokenizer.encode(line)), side.decode(side.encode(line))
            assert text in (line, line.replace("\u2581", "<unk>"))
            assert decoded == line or "<unk>" in decoded


@given(words=st.lists(st.text("a@#\u2581<>", min_size=1, max_size=5), min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["bpe-words", "bpe-characters", "words", "characters"])
def test_decoding_restores_words_of_marks(kind, words):
    tokenizer = create_side(kind, "words").tokenizer
    line = " ".join(words)
    tokens = tokenizer.encode(line)
    assert tokenizer.decode(tokens) == line
    assert tokenizer.word_ids(tokens)[-1] == len(words) - 1
