"""Tests of word links from attention: layer, heads and time step, selected source tokens, and the sink."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_forced import PAIRS

from generation.conftest import TEXT, build_transformer
from regard.data.fertility import Budget, ConstantFertilityConfig
from regard.errors import InfeasibleBoundsError, UsageError
from regard.generation.config import AlignmentConfig, GenerationConfig
from regard.generation.forced import sentence_attention
from regard.generation.lines import enumerate_lines
from regard.generation.linking import attention_links, attention_map
from regard.generation.neural_translator import NeuralTranslator
from regard.text.links import parse_links
from regard.text.vocabulary import EOS

# Two layers, with two heads and one head; T = 3 time steps (the last is the end symbol), S = 2 source tokens.
LOW = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0.5, 0.5], [0, 1]]], dtype=np.float32)
TOP = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.3, 0.7]]], dtype=np.float32)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (AlignmentConfig(), "0-0 0-1"),
        (AlignmentConfig(layer=0, heads=(0,)), "0-0 1-1"),
        (AlignmentConfig(layer=-2, heads=(-1,)), "0-1 1-0"),
        (AlignmentConfig(layer=0), "0-0 0-1"),  # tie of the mean of both heads: the first is taken
    ],
)
def test_links_depend_on_layer_heads_and_step(config, expected) -> None:
    words = [0, 1], [0, 1]
    assert attention_links([LOW, TOP], [LOW, TOP], config, words) == parse_links(expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (AlignmentConfig(layer=2), "layer 2: soft attends to the source in 2 layers, counted from 0"),
        (AlignmentConfig(layer=-3), "layer -3: soft"),
        (AlignmentConfig(heads=(1,)), "head 1: layer -1 of soft has 1 heads, counted from 0"),
    ],
)
def test_layer_or_head_out_of_range_is_rejected(config, message) -> None:
    with pytest.raises(UsageError, match=message):
        attention_map([LOW, TOP], config, "soft")


@pytest.mark.parametrize(
    ("priors", "posteriors", "source_words", "expected"),
    [
        # The first word attends to the sink.
        ([[0.4, 0, 0.6], [0.2, 0.5, 0.3]], [[0.4, 0, 0.6], [0.2, 0.5, 0.3]], [0, 1, -1], "1-1"),
        ([[1, 1, 0, 1], [0, 0, 1, 0]], [[0.6, 0.7, 0.49, 0.9], [0.1, 0.2, 0.3, 0.2]], range(4), "3-0 2-1"),
        # The two unselected subword tokens of a word are together more probable than the selected token.
        ([[0, 0, 1]], [[0.45, 0.45, 0.6]], [0, 0, 1], "1-0"),
    ],
)
def test_link_goes_to_the_most_probable_selected_word(priors, posteriors, source_words, expected) -> None:
    # The last row is that of the end symbol.
    layers = [
        [np.array([*rows, np.ones(len(source_words))], dtype=np.float32)[:, None]]
        for rows in (priors, posteriors)
    ]
    words = source_words, range(len(priors))
    assert attention_links(*layers, AlignmentConfig(), words) == parse_links(expected)


def test_hard_attention_is_linked_and_scored_by_its_probabilities(build) -> None:
    model = build(seed=2, attention={"kind": "hard", "score_scale": 8.0})
    search = GenerationConfig(beam_size=1, suppress_unk=True)
    pairs, num_multiple, num_not_leftmost = [PAIRS[0], PAIRS[-1]], 0, 0
    translator = NeuralTranslator(model, TEXT, search)
    scored, predicted = translator.score(pairs), translator.score(pairs, predictions=True)
    for (source, _), line, score in zip(pairs, predicted, scored, strict=True):
        assert score.error is None
        priors, posteriors = line.attention[0][:, 0], line.posteriors[0][:, 0]
        assert set(np.unique(priors)) <= {0.0, 1.0}
        np.testing.assert_array_equal(priors[posteriors > 0.5], 1.0)
        best = {(int(row.argmax()), t) for t, row in enumerate(posteriors[:-1])}
        assert line.links == score.links == best
        num_multiple += int((priors.sum(1) > 1).sum())
        num_not_leftmost += sum(int(priors[t].argmax()) != s for s, t in best)
        figures = sentence_attention(line, AlignmentConfig())
        assert figures.links == best and figures.support.max() == len(source.split())
    assert num_multiple and num_not_leftmost  # otherwise the leftmost selected token would pass, too
    for one in translator.translate(enumerate_lines(source for source, _ in pairs)):
        assert set(np.unique(one.attention[0])) <= {0.0, 1.0}
        assert one.links == {(int(row.argmax()), t) for t, row in enumerate(one.attention_map)}


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_translation_longer_than_the_fertilities_is_rejected(build, kind, caplog) -> None:
    """A source word with fertility 3 permits at most 3 target tokens and the step of the end symbol."""
    config = ConstantFertilityConfig(value=3.0, sink=False)
    text = replace(TEXT, budget=Budget.constant(config, len(TEXT.source.vocabulary)))
    model = {"lstm": build, "transformer": build_transformer}[kind](attention={"kind": "constrained"})
    pairs = [("d", "D E F"), ("d", "D E F G"), ("a b", "A B C D E F"), ("d", "D " * 9)]
    within, beyond, also_within, far_beyond = NeuralTranslator(model, text, GenerationConfig()).score(pairs)
    for line, fertility in ((within, 3), (also_within, 6)):
        assert line.error is None
        words = line.attention[0][:fertility].mean(axis=1).sum(0)
        np.testing.assert_array_less(words, 3 + 1e-4)
    for line in (beyond, far_beyond):
        assert line.error is not None
        assert "sum to 3, and each target token uses 1: no attention is left for target token 3" in line.error
    assert "'G'" in beyond.error and beyond.error in caplog.text
    # The model itself raises an error, too, when it is called directly.
    batch = text.batch([[5], [5]], [[6, 6, 6, EOS], [6, 6, 6, 6, EOS]], [0, 1])
    with torch.inference_mode(), pytest.raises(InfeasibleBoundsError, match="sentence 2 "):
        model(batch)
