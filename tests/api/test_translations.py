"""Results of the Python API: their JSON, tables and locks, and reports, tuning and links from Python."""

import dataclasses
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config import to_dict
from regard.data.fertility import Budget, PredictedFertilityConfig
from regard.data.text import TextSide
from regard.errors import DataError
from regard.metrics.alignment import AlignmentScore, alignment_score
from regard.text.links import parse_gold_links
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import STEP, ActionsConfig, ActionsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from saved_models import LSTM, save_model

TEXT = "a b c d"
SOURCES = ["a b c d", "c c", "g f e", "b"]
REFERENCES = ["A B C D", "C C", "G F", "B"]


def test_json_of_a_translation_has_the_values_of_its_attributes(bounded):
    best = bounded.translate(TEXT, num_return=2)
    data = json.loads(json.dumps(best.to_dict("layers"), allow_nan=False))
    assert (data["schema"], data["schema_version"]) == ("translation", 1)
    for name in ("source", "text", "score", "log_probability", "error", "retokenized"):
        assert data[name] == getattr(best, name)
    for name in ("source_tokens", "tokens", "source_words", "target_words", "source_word_ids"):
        assert data[name] == list(getattr(best, name))
    for name in ("attention", "posterior_attention"):
        (written,), (layer,) = data[name], getattr(best, name)
        np.testing.assert_array_equal(np.array(written, dtype=np.float32), layer)
    np.testing.assert_allclose(data["attention_map"], best.attention_map, rtol=1e-4)
    np.testing.assert_allclose(data["word_attention_map"], best.word_attention_map.weights, rtol=1e-4)
    np.testing.assert_allclose(data["received_attention"], best.attention[0].mean(1).sum(0), rtol=1e-4)
    assert data["alignment"] == best.alignment.tolist()
    assert data["fertility_bounds"] == [{"lower": 0.0, "upper": 2.0}] * 4 and data["sink"]


class Growing:
    """A fertility predictor whose bounds depend on the sentence, as those of a tagger do."""

    def predict(self, sentences):
        return [np.linspace(1, 2, len(ids), dtype=np.float32) for ids in sentences]


@pytest.mark.parametrize("kind", ["constant", "predicted"])
def test_a_scored_translation_has_the_fertility_bounds_of_a_generated_one(bounded, model, kind):
    if kind == "predicted":
        budget = Budget(PredictedFertilityConfig(sink=True), predictor=Growing())
        text = dataclasses.replace(bounded.text, budget=budget)
        bounded = regard.Translator(bounded.directories, dataclasses.replace(bounded.backend, text=text))
    generated = bounded.translate([TEXT, "", "a"])
    scored = bounded.score([TEXT, "", "a"], ["A B", "A", "A"])
    assert [one.fertility_bounds for one in scored] == [one.fertility_bounds for one in generated]
    assert [len(one.fertility_bounds or ()) for one in scored] == [4, 0, 1]
    assert model.score(TEXT, "A B").fertility_bounds is model.translate("").fertility_bounds is None


def test_nbest_list_is_nested_once_in_json(model):
    best = model.translate(TEXT, num_return=3)
    assert best.nbest[0] is best and best.nbest[1:] == best.alternatives and len(best.nbest) == 3
    assert not any(one.alternatives for one in best.alternatives)
    data = best.to_dict()
    assert [one["text"] for one in data["alternatives"]] == [one.text for one in best.alternatives]
    assert not {"alternatives", "source"} & data["alternatives"][0].keys()


def test_amount_of_attention_in_json_is_chosen(model):
    fields = ("word_attention_map", "attention_map", "attention")
    found = {
        detail: [model.translate(TEXT).to_dict(detail)[name] is not None for name in fields]
        for detail in ("none", "words", "tokens", "layers")
    }
    assert list(found.values()) == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_unknown_words_are_marked(model):
    assert model.translate("a x y b").unknown_words == (1, 2)
    assert model.score("a x", "A").unknown_words == (1,)


def test_translations_are_a_sequence_with_a_table_and_json(model, tmp_path):
    found = model.translate([TEXT, "", "a " * 2000])
    assert len(found) == 3 and found[-1].error and [one.text for one in found[:2]] == [found[0].text, ""]
    assert isinstance(found[:2], regard.Translations) and next(iter(found)) is found[0]
    table = found.to_pandas()
    assert list(table["source"]) == [TEXT, "", "a " * 2000] and table.loc[0, "score"] == found[0].score
    found.save(tmp_path / "found.json")
    data = json.loads((tmp_path / "found.json").read_text())
    assert data["schema"] == "translations" and data["sentences"][0] == found[0].to_data()
    assert data["sentences"][1]["score"] is None and "2000 tokens" in data["sentences"][2]["error"]
    assert repr(found) == "Translations(3 sentences)"


def test_notebooks_show_text_and_attention_without_markup_of_the_text(model):
    page = model.translate("<b> a")._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "<svg" in page
    assert "<svg" not in model.translate("")._repr_html_()


def test_scores_sum_the_log_probabilities(model):
    scores = model.score([TEXT, "", "a"], ["A B", "A", "B"])
    totals = scores.totals
    assert isinstance(scores, regard.Scores) and (totals.num_skipped, totals.num_tokens) == (1, 5)
    assert totals.log_probability == pytest.approx(scores[0].log_probability + scores[2].log_probability)
    assert scores.perplexity == pytest.approx(math.exp(-totals.log_probability / 5))
    assert scores.to_dict()["num_skipped"] == 1
    assert model.score([""], ["A"]).to_dict()["perplexity"] is None


def test_sink_of_another_model_is_no_word_of_the_source(model, bounded):
    result = bounded.translate("a b")
    assert result.source_tokens == ("a", "b", "<sink>")
    assert model.score("a b", result).source_tokens == ("a", "b")
    assert model.score("a b", result).log_probability == pytest.approx(
        model.score("a b", result.text).log_probability, abs=1e-6
    )
    assert bounded.score("a b", model.translate("a b")).source_tokens == ("a", "b", "<sink>")


def test_files_are_translated_line_by_line(model, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in SOURCES))
    found = model.translate(tmp_path / "in.txt")
    assert [one.text for one in found] == [one.text for one in model.translate(SOURCES)]


def test_links_are_evaluated_from_arrays_and_files(model, tmp_path):
    scored = model.score(SOURCES, REFERENCES)
    links = [one.alignment for one in scored]
    gold = ["0-0 1p1", "0-0", "", "0-0"]
    result = regard.evaluate_links(links, gold, sources=SOURCES, targets=REFERENCES)
    parsed = [frozenset(map(tuple, one.tolist())) for one in links]
    truth = [parse_gold_links(line) for line in gold]
    expected = alignment_score(parsed, truth)
    assert AlignmentScore(result.precision, result.recall, result.aer) == expected
    assert result.aer_low <= result.aer <= result.aer_high and result.num_pairs == 4
    (tmp_path / "gold.talp").write_text("".join(f"{line}\n" for line in gold))
    lines = [" ".join(f"{i}-{j}" for i, j in one.tolist()) for one in links]
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    assert regard.evaluate_links(tmp_path / "links", tmp_path / "gold.talp") == result
    assert regard.evaluate_links(links, links).aer == 0  # arrays contain sure links
    with pytest.raises(DataError, match="links has 3 lines but gold has 4"):
        regard.evaluate_links(links[:3], gold)
    with pytest.raises(DataError, match="gold:1: link 9-0 points beyond the source sentence"):
        regard.evaluate_links(links, ["9-0", *gold[1:]], sources=SOURCES)


def test_report_of_loaded_models_equals_that_of_their_directories(directories, model, tmp_path):
    options = regard.ReportOptions(names=["soft"], title="t")
    pages = [
        regard.report(one, test=(SOURCES, REFERENCES), output=tmp_path / f"{number}.html", options=options)
        for number, one in enumerate((model, directories[0], directories[:1]))
    ]
    assert len({page.read_text() for page in pages}) == 1
    with pytest.raises(DataError, match="sources has 4 lines but references has 3"):
        regard.report(model, test=(SOURCES, REFERENCES[:3]), output=tmp_path / "none.html")


@pytest.mark.parametrize(
    "use",
    [
        lambda model, path: model.translate(TEXT),
        lambda model, path: model.score(TEXT, "A"),
        lambda model, path: regard.tune(model, SOURCES, REFERENCES),
        lambda model, path: regard.report(model, test=(SOURCES, REFERENCES), output=path / "page.html"),
        lambda model, path: regard.analyze.errors(model, SOURCES, REFERENCES),
        lambda model, path: regard.analyze.attention(model, SOURCES, REFERENCES),
        lambda model, path: regard.analyze.length(model, SOURCES, REFERENCES),
    ],
)
def test_every_use_of_a_model_waits_for_its_lock(model, tmp_path, use):
    done = threading.Event()
    thread = threading.Thread(target=lambda: (use(model, tmp_path), done.set()))
    with model.lock:
        thread.start()
        assert not done.wait(0.3)
    thread.join(60)
    assert done.is_set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import regard; regard.analyze.errors",
        "import regard.analyze; regard.analyze.errors; regard.evaluate",
        "import regard; regard.functional.sparsemax; regard.nn.Sparsemax; regard.hf.attention_bounds",
    ],
)
def test_modules_are_attributes_of_the_package(code):
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_name_is_no_attribute():
    assert not hasattr(regard, "functionals") and not hasattr(regard, "__wrapped__")


def test_every_public_name_can_be_imported():
    for name in dir(regard):
        assert getattr(regard, name) is not None


# With this seed, models generate translations whose text is tokenized differently when it is read again.
SEED = 20
AMBIGUOUS = ["a b c", "d a", "c c c c", "b", "a b d c a b"]
BPE = BytePairTokenizer(BytePairConfig(tokenized=True, joint=False), b"#version: 0.2\na b</w>\n")
KINDS = {
    # The tokens "a@@ b" have the text "ab", which is encoded as the single token "ab".
    "bpe": (BPE, ("a@@", "b", "ab"), "constrained", 2.0),
    # Step actions do not occur in the text.
    "actions": (ActionsTokenizer(ActionsConfig()), (STEP, "a", "b"), "pointer", None),
}


@pytest.fixture(scope="module", params=KINDS)
def retokenized(request, tmp_path_factory) -> Path:
    tokenizer, tokens, kind, fertility = KINDS[request.param]
    decoder = {"hidden_size": 8, "query": "previous", "input_feeding": "context"}
    return save_model(
        tmp_path_factory.mktemp(request.param),
        SEED,
        model={**LSTM, "decoder": decoder, "init_range": 1.0},
        attention={"kind": kind},
        fertility=fertility,
        source="a b c d",
        target=TextSide(tokenizer, Vocabulary((*SPECIAL_TOKENS, *tokens))),
        data={"target_tokenizer": to_dict(tokenizer.config)},
        generation={"min_length": 3},
    )


def test_python_results_are_scored_with_their_tokens(retokenized: Path) -> None:
    model = regard.load(retokenized, length_penalty=0.0)
    results = model.translate(AMBIGUOUS)
    again = model.score(AMBIGUOUS, results)
    assert [one.tokens for one in again] == [one.tokens for one in results]
    for one, other in zip(again, results, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.retokenized == (model.score(one.source, one.text).tokens != one.tokens)
    assert any(one.retokenized for one in again)
    single = model.score(AMBIGUOUS[0], results[0])
    assert single.log_probability == pytest.approx(again[0].log_probability, abs=1e-4)
    # For another source sentence, only the tokens of the translation are reused.
    other = model.score("d d", results[0])
    assert other.tokens == results[0].tokens and other.source_tokens[:2] == ("d", "d")
    mixed = model.score(AMBIGUOUS[:2], [results[0], results[1].text])
    assert mixed[0].tokens == results[0].tokens and not mixed[1].retokenized
