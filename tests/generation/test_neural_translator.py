"""Tests of the translator from lines to translations: order, memory, rejected lines, unknown words, links."""

import itertools
import logging

import numpy as np
import pytest

from generation.conftest import TEXT, build_transformer, config
from regard.config import from_dict
from regard.generation.blocks import length_sorted_batches
from regard.generation.config import GenerationBatchConfig, GenerationConfig, Sampling
from regard.generation.lines import enumerate_lines
from regard.generation.linking import replace_unk_tokens
from regard.generation.neural_translator import NeuralTranslator

LINES = ["a b c", "", "d", "e f g a b", "   ", "x y a", "c c c c", "g"]


def search(**options) -> GenerationConfig:
    return config(beam_size=3, **options)


def test_results_do_not_depend_on_blocks_and_batches(build):
    model = build()
    found = list(NeuralTranslator(model, TEXT, search(min_length=1)).translate(enumerate_lines(LINES)))
    expected = [result.text for result in found]
    assert [bool(text) for text in expected] == [bool(line.strip()) for line in LINES]
    assert [bool(result.nbest) for result in found] == [bool(line.strip()) for line in LINES]
    for block, sentences, tokens in [(1, 32, 4096), (3, 2, 4096), (100, 32, 6)]:
        options = search(min_length=1, buffer_lines=block, batch_size=sentences, max_batch_tokens=tokens)
        results = list(NeuralTranslator(model, TEXT, options).translate(enumerate_lines(LINES)))
        assert [r.text for r in results] == expected
        assert [r.source for r in results] == LINES


def test_at_most_two_blocks_of_lines_are_read(build):
    read: list[int] = []

    def endless():
        for i in itertools.count():
            read.append(i)
            yield "a b"

    results = NeuralTranslator(build(), TEXT, search(buffer_lines=5)).translate(enumerate_lines(endless()))
    for _ in range(7):
        next(results)
    assert len(read) <= 10


def test_overlong_lines_are_skipped_with_a_warning(build, caplog):
    texts = ["a b", "a " * 100_000, "z" * 10_000_000, "a b"]
    with caplog.at_level(logging.WARNING):
        options = search(min_length=1, max_source_length=50)
        results = list(NeuralTranslator(build(), TEXT, options).translate(enumerate_lines(texts)))
    assert [r.text == "" for r in results] == [False, True, True, False]
    assert results[0].text == results[3].text
    assert ["line 2" in m for m in caplog.messages] == [True, False]
    assert "line 3" in caplog.messages[1]


def test_all_learned_positions_are_usable():
    """The end symbol needs a position in the target but not in the source."""
    model = build_transformer(position_encoding={"kind": "learned", "max_length": 5})
    translator = NeuralTranslator(model, TEXT, search(min_length=1))
    results = list(translator.translate(enumerate_lines(["a b c d e", "a b c d e f"])))
    assert [result.error for result in results] == [None, "the line has 6 tokens; the maximum is 5"]
    assert 0 < len(results[0].tokens) <= 4
    pairs = [("a b c d e", "A B C D"), ("a", "A B C D E"), ("a b c d e f", "A")]
    assert [one.error is not None for one in translator.score(pairs)] == [False, True, True]


def test_results_have_tokens_scores_attention_and_links(build):
    options = search(num_return=2)
    for sampling in (None, Sampling()):
        for result in NeuralTranslator(build(), TEXT, options, sampling).translate(enumerate_lines(LINES)):
            for translation in result.nbest:
                steps, words = len(translation.tokens), len(result.source_tokens)
                assert translation.attention[0].shape == (steps + 1, 1, words)
                assert translation.attention_map.shape == (steps, words)
                best = translation.attention_map.argmax(axis=1)
                assert translation.links == {(int(i), t) for t, i in enumerate(best)}
                assert translation.text == " ".join(translation.tokens)


def test_unknown_token_is_replaced_by_the_attended_source_word():
    links = frozenset({(2, 0), (0, 1), (2, 2)})
    is_unknown, tokens = [False, True, True, True], ["A", "<unk>", "<unk>", "<unk>"]
    replaced = replace_unk_tokens(is_unknown, tokens, links, ["x", "y", "z"], TEXT)
    assert replaced == ["A", "x", "z", "<unk>"]


def test_prefix_text_is_unchanged(build):
    given = enumerate_lines(["a b", "", "c"], ["A new", "B", ""])
    results = list(NeuralTranslator(build(), TEXT, search(alignment={"replace_unk": True})).translate(given))
    assert results[0].text.startswith("A new")
    assert results[0].tokens[:2] == ("A", "<unk>")
    assert results[1].text == ""


def test_batches_contain_every_line_once_within_their_limits():
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 40, 200).tolist()
    config = from_dict(GenerationBatchConfig, {"batch_size": 7, "max_batch_tokens": 60})
    made = list(length_sorted_batches(lengths, config))
    assert sorted(i for batch in made for i in batch) == [i for i, n in enumerate(lengths) if n]
    for batch in made:
        assert len(batch) <= 7
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= 60


def test_scoring_returns_the_scores_of_search(build, caplog):
    model = build()
    results = list(
        NeuralTranslator(model, TEXT, search(length_penalty=0.6)).translate(enumerate_lines(LINES))
    )
    pairs = [(r.source, r.text) for r in results]
    with caplog.at_level(logging.WARNING):
        options = search(length_penalty=0.6, buffer_lines=3)
        scored = list(NeuralTranslator(model, TEXT, options).score(pairs))
    assert [s.number for s in scored] == [r.number for r in results]
    for one, result in zip(scored, results, strict=True):
        if not result.nbest:
            assert one.error is not None
            continue
        assert one.error is None
        assert one.score == pytest.approx(result.score, abs=1e-5)
        assert one.tokens == result.tokens
    assert len(caplog.messages) == 2


def test_description_has_the_configured_score_function(build):
    """A mechanism from outside the package may have scores without being a `ScorerAttention`."""
    model = build(two=True, attention={"score_function": "dot"})
    assert NeuralTranslator(model, TEXT, search()).describe().score_function == "dot"
