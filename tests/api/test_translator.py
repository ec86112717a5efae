"""The Python API (`regard.load`, `regard.evaluate`) gives the results of the command line."""

import math
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.figure
import numpy as np
import pandas
import pytest
import torch

import regard
from regard.api.evaluation import EvaluationOptions
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.generation.neural_translator import NeuralTranslator
from regard.metrics.translation import count_statistics
from regard.plot.heatmap import attention_heatmap
from regard.runs.loading import load_model
from saved_models import save_model, subword_side

TRANSFORMER = {
    "kind": "transformer",
    "d_model": 8,
    "num_heads": 2,
    "encoder": {"num_layers": 2},
    "decoder": {"num_layers": 3},
}
TEXT = "a b c d"


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("transformer") / "m"
    return regard.load(save_model(directory, model=TRANSFORMER), device="cpu")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_precision_is_the_dtype_of_all_parameters(model, name):
    loaded = load_model(model.directories[0], "cpu", name)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {getattr(torch, name)}


def test_result_equals_output_of_translator(model):
    loaded = load_model(model.directories[0], "cpu")
    translator = NeuralTranslator(loaded.model, loaded.text, loaded.config.generation)
    (wanted,) = [found for found in translator.translate(numbered(TEXT))]
    result = model.translate(TEXT)
    assert (str(result), result.tokens) == (wanted.text, wanted.tokens)
    assert result.source_tokens == tuple(TEXT.split())
    assert (result.score, result.log_probability) == (wanted.score, wanted.log_probability)
    assert result.token_log_probs.sum() == pytest.approx(result.log_probability)
    np.testing.assert_array_equal(result.attention_map, wanted.attention_map)
    assert result.attention_map.shape == (len(result.tokens), 4)
    assert {tuple(link) for link in result.alignment.tolist()} == set(wanted.links)
    assert result.attention[0].shape == (len(result.tokens) + 1, 1, 4)
    assert result.nbest[0].text == result.text


def numbered(*texts):
    from regard.generation.lines import enumerate_lines

    return enumerate_lines(texts)


@pytest.mark.parametrize("control", ["\0", "\x1b", "\x85"])
def test_control_characters_are_spaces_as_in_files(model, control, tmp_path):
    text = f"der{control}Hund"
    (tmp_path / "text").write_text(f"{text}\n")
    results = [model.translate(text), model.translate("der Hund"), model.translate(tmp_path / "text")[0]]
    assert len({(result.text, result.score, *result.source_tokens) for result in results}) == 1
    scores = [regard.evaluate([line], ["der Hund"]).scores["bleu"] for line in (text, "der Hund")]
    assert scores[0] == scores[1]
    assert regard.check([text], [text], detector="repetition").sentences[0].source == "der Hund"


def test_list_of_texts_gives_list_of_results_in_order(model):
    texts = ["g f e", "", TEXT, "a"]
    results = model.translate(iter(texts))
    assert [result.source for result in results] == texts
    assert [result.text for result in results] == [model.translate(text).text for text in texts]
    assert results[1].text == "" and results[1].error is None and math.isnan(results[1].score)
    assert results[1].attention_map.shape == (0, 0) and results[1].alignment.shape == (0, 2)
    assert len(model.translate([])) == 0


def test_search_options_apply_to_model_or_single_call(directories, model):
    greedy = regard.load(directories[0], device="cpu", beam_size=1)
    assert greedy.search.beam_size == 1
    assert greedy.translate(TEXT).text == model.translate(TEXT, beam_size=1).text
    assert model.search.beam_size == 3
    with pytest.raises(ConfigError, match="beem"):
        model.translate(TEXT, beem=2)
    with pytest.raises(ConfigError, match="beam"):
        regard.load(directories[0], beam_size=0)
    with pytest.raises(ConfigError, match="num_return = 4"):
        model.translate(TEXT, beam_size=2, num_return=4)


def test_several_directories_make_an_ensemble(directories, model):
    both = regard.load(*directories, device="cpu")
    assert both.translate(TEXT).attention[0].shape[1] == 2


def test_tokens_of_another_vocabulary_are_not_scored(directories, model, tmp_path):
    found = model.translate(TEXT)
    # The same vocabularies in another directory are no obstacle.
    other = regard.load(directories[1], device="cpu")
    assert other.score(TEXT, found).tokens == found.tokens
    reversed_words = regard.load(save_model(tmp_path / "reversed", source="g f e d c b a"), device="cpu")
    with pytest.raises(UsageError, match="other vocabularies or tokenizers"):
        reversed_words.score([TEXT], [found])
    assert reversed_words.score(TEXT, found.text).tokens == found.tokens


def test_too_long_text_raises_alone_but_is_marked_in_a_list(model):
    with pytest.raises(DataError, match="2000 tokens"):
        model.translate("a " * 2000)
    fine, refused = model.translate([TEXT, "a " * 2000])
    assert fine.text and fine.error is None
    assert refused.text == "" and "2000 tokens" in refused.error
    with pytest.raises(UsageError, match="2000 tokens"):
        refused.plot()
    with pytest.raises(DataError, match="the source is empty"):
        model.score("", "A")
    assert "empty" in model.score(["", "a"], ["A", "A"])[0].error


def test_fertilities_by_word_and_by_position_agree(bounded):
    free = bounded.translate(TEXT)
    assert free.source_tokens[-1] == "<sink>" and free.source_words == tuple(TEXT.split())
    for wanted in ({"b": 0}, [None, 0, None, None], [2, (0, 0), 2.0, (None, None)]):
        found = bounded.translate(TEXT, fertilities=wanted)
        assert not found.attention_map[:, 1].any()
    assert free.attention_map[:, 1].any()
    one, other = bounded.translate([TEXT, "b a"], fertilities=[{"b": 0}, None])
    assert not one.attention_map[:, 1].any() and other.attention_map[:, 0].any()
    both = bounded.translate([TEXT, "b a"], fertilities={"b": 0})
    assert not both[0].attention_map[:, 1].any() and not both[1].attention_map[:, 0].any()


@pytest.mark.parametrize(
    "wanted", [{"b": -1}, {"b": math.nan}, {"b": "1"}, {"b": True}, [1], [1, 1, 1, (2, 1)], "abcd", 3]
)
def test_invalid_fertilities_and_those_without_bounded_attention_are_rejected(bounded, model, wanted):
    with pytest.raises(UsageError, match="fertilities"):
        bounded.translate(TEXT, fertilities=wanted)
    with pytest.raises(UsageError, match="fertilities: not supported"):
        model.translate(TEXT, fertilities={"a": 1})


def test_prefixes_and_required_terms_appear_in_translation(model):
    assert model.translate(TEXT, prefix="G G").text.startswith("G G")
    held = model.translate(TEXT, terms=["F E"])
    assert "F E" in held.text and held.missing_terms == ()
    assert model.translate(TEXT, terms=["zzz"]).missing_terms
    first, second = model.translate([TEXT, TEXT], prefix=["A A", ""], terms=[["B"], []])
    assert first.text.startswith("A A") and "B" in first.text
    assert second.text == model.translate(TEXT).text


def test_samples_are_ranked_by_their_utility(model):
    assert model.translate(TEXT, sampling=regard.Sampling(), mbr=regard.MBR(utility="chrf")).score > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.translate(TEXT, beam_size=1, mbr=regard.MBR(utility="chrf")),
        lambda m: m.translate(TEXT, sampling=regard.Sampling(), terms=["A"]),
        lambda m: m.translate([TEXT, None]),
        lambda m: m.translate("\ud800"),
        lambda m: m.translate(TEXT, terms="A"),
        lambda m: m.translate(TEXT, prefix=None),
        lambda m: m.translate([TEXT], prefix=["A", "B"]),
        lambda m: m.score(TEXT, ["A"]),
        lambda m: m.score([TEXT], ["A", "B"]),
        lambda m: regard.load(),
        lambda m: regard.load(["a", "b"]),
    ],
)
def test_invalid_calls_raise_usage_errors(model, call):
    with pytest.raises(UsageError):
        call(model)


def test_missing_model_directory_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere"):
        regard.load(tmp_path / "nowhere")


def test_transformer_returns_all_attention_on_request(transformer):
    plain, whole = transformer.translate(TEXT), transformer.translate(TEXT, output_attentions="all")
    steps = len(whole.tokens) + 1
    assert whole.text == plain.text and plain.encoder_attention == plain.decoder_attention == ()
    assert [layer.shape for layer in whole.encoder_attention] == [(2, 4, 4)] * 2
    assert [layer.shape for layer in whole.decoder_attention] == [(2, steps, steps)] * 3
    for layer in (*whole.encoder_attention, *whole.decoder_attention):
        np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-5)
    # Decoder self-attention is causal.
    assert not np.triu(whole.decoder_attention[0][0], 1).any()
    for of in ("source", "encoder", "decoder"):
        assert ET.fromstring(whole.plot(kind=of, layer=0, head="all").svg).get("role") == "img"
    with pytest.raises(UsageError, match="output_attentions='all'"):
        plain.plot(kind="encoder")


def test_subword_weights_are_summed_to_words(tmp_path):
    side = subword_side("a@@ b c d@@ e f g")
    result = regard.load(save_model(tmp_path / "m", source=side), device="cpu").translate("ab c de")
    assert result.source_tokens == ("a@@", "b", "c", "d@@", "e")
    assert result.source_words == ("ab", "c", "de")
    weights = result.word_attention_map.weights
    assert weights.shape == (len(result.target_words), 3)
    np.testing.assert_allclose(weights[:, 0], result.attention_map[:, :2].sum(axis=1), rtol=1e-5)
    assert "ab</text>" in result.plot(words=True).svg and "a@@" in result.plot().svg


def test_plot_is_saved_as_svg_pdf_or_png(model, tmp_path):
    result = model.translate(TEXT)
    plot = result.plot()
    heat = attention_heatmap(result.attention_map, result.source_tokens, result.tokens)
    assert plot.svg == plot._repr_svg_() == heat.figure().svg
    assert plot.save(tmp_path / "map.svg").read_text(encoding="utf-8") == plot.svg
    assert plot.save(str(tmp_path / "map.png")).read_bytes().startswith(b"\x89PNG")
    assert plot.save(tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UsageError, match=r"\.svg, \.pdf or \.png"):
        plot.save(tmp_path / "map.jpg")
    with pytest.raises(DataError, match="nowhere"):
        plot.save(tmp_path / "nowhere" / "map.svg")
    for wrong in ({"layer": 1}, {"head": 1}, {"head": "none"}, {"kind": "target"}):
        with pytest.raises(UsageError):
            result.plot(**wrong)


def test_plot_on_given_axes_has_the_words_of_the_translation(model):
    one = model.score("a b", "A B")
    for plot in (one.plot(), one.plot_difference(model.score("a b", "A B"))):
        ax = matplotlib.figure.Figure().subplots()
        plot.plot_on(ax)
        assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
        assert [label.get_text() for label in ax.get_yticklabels()] == ["A", "B"]


def test_models_with_and_without_sink_can_be_subtracted(model, bounded):
    one, other = model.score("a b", "A B"), bounded.score("a b", "A B")
    assert other.source_tokens[-1] == "<sink>" and "<sink>" not in one.source_tokens
    apart = other.difference(one)
    assert apart.columns == ("a", "b", "<sink>") and apart.target == ("A", "B")
    words = other.word_attention_map.weights[:, :2] - one.word_attention_map.weights
    np.testing.assert_allclose(apart.weights[:, :2], words, atol=1e-6)
    np.testing.assert_allclose(apart.weights[:, 2], other.attention_map[:, 2], atol=1e-6)
    np.testing.assert_array_equal(apart.weights, -one.difference(other).weights)
    assert "more in bounded" in other.plot_difference(one, ("bounded", "soft")).svg
    with pytest.raises(DataError, match="'B' in this one and 'C' in the other"):
        one.difference(bounded.score("a b", "A C"))


FEW = EvaluationOptions(num_bootstrap_samples=20)
OUTPUTS = ["the cat sat on the mat .", "a dog barks loudly at night", "it is is raining ."]
REFERENCES = ["the cat sat on a mat .", "a dog barks at night", "it is raining ."]


def test_evaluate_equals_single_metrics():
    result = regard.evaluate(OUTPUTS, REFERENCES, metrics="bleu, chrf,rep", options=FEW)
    assert list(result) == ["bleu", "chrf", "rep"]
    for metric in ("bleu", "chrf"):
        score = count_statistics(metric, OUTPUTS, [REFERENCES]).corpus_score()
        assert result[metric].score == score
    assert result.bleu == result["bleu"].score
    assert result["bleu"].low <= result.bleu <= result["bleu"].high
    assert "tok:13a" in result["bleu"].signature
    # REP: the only repetition is "is is". It counts 2, divided by the 16 words of the references.
    assert result.rep == pytest.approx(100 * 2 / 16)
    with pytest.raises(AttributeError, match="bleu, chrf, rep"):
        _ = result.ter


def test_records_convert_to_pandas_tables():
    result = regard.evaluate(OUTPUTS, REFERENCES, ["eins", "zwei", "drei"], options=FEW)
    table = result.to_pandas().set_index("metric")
    assert list(table.index) == ["bleu", "chrf", "ter"]
    assert table.loc["ter", "score"] == result.ter
    each = pandas.DataFrame(result.sentences())
    assert list(each.columns) == ["sentence", "source", "hypothesis", "reference", "bleu", "chrf", "ter"]
    assert list(each["sentence"]) == [1, 2, 3]
    for i, (output, reference) in enumerate(zip(OUTPUTS, REFERENCES, strict=True)):
        score = count_statistics("chrf", [output], [[reference]]).corpus_score()
        assert each.loc[i, "chrf"] == pytest.approx(score)
    # Columns of a table are accepted as input.
    assert regard.evaluate(each["hypothesis"], each["reference"], options=FEW).bleu == result.bleu


def test_evaluate_accepts_results_and_alignment_arrays(model):
    results = model.translate(["a b", "c d"])
    texts = [result.text for result in results]
    assert regard.evaluate(results, texts, metrics=["accuracy"], options=FEW).accuracy == 100
    links = [result.alignment for result in results]
    for output_links, expected in ((links, 0), ([links[0][:0]] * 2, 100)):
        compared = {"reference_links": links, "hypothesis_links": output_links}
        result = regard.evaluate(results, texts, metrics=["drop"], options=FEW, **compared)
        assert result.drop == expected


@pytest.mark.parametrize("arguments", [{"tokenize": "14b"}, {"num_bootstrap_samples": 1}])
def test_invalid_evaluation_options_are_rejected(arguments):
    with pytest.raises(UsageError):
        EvaluationOptions(**arguments)


def test_recipe_plots_models_and_the_difference_of_their_maps(directories, tmp_path, monkeypatch) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "figures" / "attention_maps.py"
    arguments = [str(tmp_path), "a b c", *map(str, directories), "--reference", "A B"]
    monkeypatch.setattr(sys, "argv", [recipe.name, *arguments])
    runpy.run_path(str(recipe), run_name="__main__")
    names = [f"{kind}-{model.name}.svg" for kind in ("history", "translation") for model in directories]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["difference.svg", *names]
