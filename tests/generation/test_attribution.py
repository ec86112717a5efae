"""Tests of maps that show attributions: translation, scoring and forced decoding share them; faithfulness."""

import numpy as np
import pytest

from generation.conftest import TEXT
from regard.analysis.faithfulness import analyze_faithfulness
from regard.analysis.inputs import ParallelText, System
from regard.config import from_dict
from regard.errors import ConfigError, UsageError
from regard.generation.attribution import attribute, to_map
from regard.generation.config import AlignmentConfig, GenerationConfig, search_settings
from regard.generation.ensemble import Ensemble
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.text.vocabulary import EOS

METHODS = ["gradient", "leave_one_out"]
PAIRS = [("a b c", "C B A"), ("d", "D E"), ("e f g a b", "A"), ("c c", "")]


def translator(model, method: str = "attention") -> NeuralTranslator:
    search = from_dict(GenerationConfig, {"beam_size": 2, "num_return": 2, "max_length_ratio": 1.0})
    return NeuralTranslator(model, TEXT, search).with_search({"map": method})


def expected_map(model, method: str, source: str, target: list[int]) -> np.ndarray:
    batch = TEXT.batch([TEXT.source.encode(source)], [[*target, EOS]], [0])
    return to_map(attribute(model, batch, AlignmentConfig(map=method)))[0].float().numpy()


@pytest.mark.parametrize("method", METHODS)
def test_translations_scores_and_forced_decoding_show_the_same_map(build, method):
    one = translator(build(seed=3), method)
    for result in one.translate(enumerate_lines(["a b c", "d"])):
        for found in result.nbest:
            ids = TEXT.target.vocabulary.to_ids(found.tokens)
            expected = expected_map(one.model, method, result.source, ids)
            ((layer,), pair) = found.attention, (result.source, found.text)
            np.testing.assert_allclose(layer[:, 0], expected, atol=1e-3)
            np.testing.assert_allclose(found.attention_map, expected[:-1], atol=1e-3)
            (score,) = one.score([pair])
            assert score.error is None and score.links == found.links
            for layers in (score.attention, score.posterior_attention):
                np.testing.assert_allclose(layers[0][:, 0], expected, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_map_changes_neither_translations_nor_scores(build, method):
    model = build(seed=3, attention={"kind": "posterior"})
    plain, shown = translator(model), translator(model, method)
    sources = [source for source, _ in PAIRS]
    results = (each.translate(enumerate_lines(sources)) for each in (plain, shown))
    for one, other in zip(*results, strict=True):
        assert [x.text for x in one.nbest] == [x.text for x in other.nbest]
        assert [x.score for x in one.nbest] == [x.score for x in other.nbest]
    for one, other in zip(plain.score(PAIRS), shown.score(PAIRS), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)


def test_gradient_of_an_ensemble_of_equal_models_is_that_of_one(build):
    model = build(seed=3)
    alone, both = (next(translator(x, "gradient").score(PAIRS)) for x in (model, Ensemble([model] * 2)))
    assert alone is not None and both is not None
    np.testing.assert_allclose(both.contributions, alone.contributions, atol=1e-5)


def test_layer_and_heads_apply_to_attention_only():
    base = from_dict(GenerationConfig, {"alignment": {"layer": 0, "heads": [1]}})
    found = search_settings(base, {"map": "gradient"}).alignment
    assert (found.map, found.layer, found.heads) == ("gradient", None, ())
    assert search_settings(base, {"map": "attention"}).alignment == base.alignment
    for options in ({"layer": 1}, {"head": 0}):
        with pytest.raises(ConfigError, match="select attention"):
            search_settings(base, {"map": "gradient", **options})


def test_model_without_gradient_is_refused_before_translation(build, monkeypatch):
    model = build()
    monkeypatch.setattr(type(model), "scales_embeddings", False)
    one = translator(model)
    assert "gradient" not in one.capabilities
    with pytest.raises(UsageError, match=r"map gradient .--map.: not supported"):
        one.with_search({"map": "gradient"})
    assert next(one.with_search({"map": "leave_one_out"}).score(PAIRS)).error is None


def faithfulness(model, pairs=PAIRS, **options):
    text = ParallelText(tuple(source for source, _ in pairs), tuple(target for _, target in pairs))
    (found,) = analyze_faithfulness([System("one", (), translator(model))], text, **options).models.values()
    return found


def test_faithfulness_equals_removing_the_top_token_by_hand(build):
    model = build(seed=3)
    found = faithfulness(model)
    sums = dict.fromkeys((*found.maps, "random", "largest"), 0.0)
    # Only these pairs have two source tokens and a target token.
    steps = 0
    for source, target in (PAIRS[0], PAIRS[2]):
        words, ids = source.split(), TEXT.target.encode(target)
        pairs = [
            (source, target),
            *((" ".join(words[:i] + words[i + 1 :]), target) for i in range(len(words))),
        ]
        logs = [score.token_log_probs[:-1] for score in translator(model).score(pairs)]
        whole, *without = np.exp(np.array(logs))
        falls = 100 * (whole - np.array(without)).T  # (T, S)
        steps += len(falls)
        sums["random"] += falls.mean(1).sum()
        sums["largest"] += falls.max(1).sum()
        for method in found.maps:
            if method == "attention":
                (forced,) = translator(model).score([(source, target)])
                weights = forced.posterior_attention[0][:-1, 0]
            else:
                weights = expected_map(model, method, source, ids)[:-1]
            # No weight at all: a random token.
            sums[method] += sum(
                row[weight.argmax()] if weight.any() else row.mean()
                for row, weight in zip(falls, weights, strict=True)
            )
    assert (found.num_sentences, found.num_tokens) == (2, steps) == (2, 4)
    assert found.random.value == pytest.approx(sums["random"] / steps, abs=1e-4)
    assert found.largest.value == pytest.approx(sums["largest"] / steps, abs=1e-4)
    for method, one in found.maps.items():
        assert one.most_attributed.value == pytest.approx(sums[method] / steps, abs=1e-4), method
        difference = one.most_attributed.value - found.random.value
        assert one.difference.value == pytest.approx(difference, abs=1e-9)
        assert one.most_attributed.value <= found.largest.value + 1e-9


def test_faithfulness_needs_attention(build):
    with pytest.raises(UsageError, match="no attention to the source: choose another --map"):
        faithfulness(build(attention={"kind": "none"}), methods=("attention",))
