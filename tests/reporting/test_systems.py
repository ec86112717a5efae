"""Data collected for a report equals the results of the single analysis commands."""

import pytest

from made_report import stored_weights
from regard.analysis.errors import count_errors
from regard.analysis.inputs import System
from regard.api.translator import load
from regard.generation.base import FileTranslator
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.metrics.alignment import merge_subwords
from regard.metrics.translation import count_statistics
from regard.reporting.model_card import model_card, read_curves
from regard.reporting.scores import compute_scores
from regard.reporting.systems import add_word_links, collect_system
from regard.text.vocabulary import SPECIAL_TOKENS
from saved_models import save_model

PAIRS = [("a b c", "A B C"), ("", "E"), ("d e a", "D"), ("c c c c", "C C B A"), ("x " * 40, "X")]


def make_translator(directory, **options) -> NeuralTranslator:
    """Return a translator with random weights."""
    search = {"beam_size": 2, "min_length": 2, "max_length_offset": 2, "max_source_length": 20}
    backend = load(save_model(directory, generation=search, **options), device="cpu").backend
    assert isinstance(backend, NeuralTranslator)
    return backend


def collect(translator):
    return collect_system(System("m", ("run",), translator), PAIRS)


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    translator = make_translator(tmp_path_factory.mktemp("soft"))
    return translator, collect(translator)


def test_every_line_is_included_even_if_empty_or_too_long(soft):
    _, system = soft
    assert [one.sentence.line for one in system.sentences] == [1, 2, 3, 4, 5]
    assert [one.error is None for one in system.sentences] == [True] * 4 + [False]
    assert [one.own_map is None for one in system.sentences] == [False, True, False, False, True]
    assert [one.text == "" for one in system.sentences] == [False, True, False, False, True]
    assert system.sentences[4].sentence.source == ("x",) * 40
    assert [one is None for one in system.attention] == [False, True, False, False, True]


def test_own_map_equal_maps_of_translations(soft):
    translator, system = soft
    results = list(translator.translate(enumerate_lines(source for source, _ in PAIRS)))
    for shown, result in zip(system.sentences, results, strict=True):
        assert shown.text == result.text
        if shown.own_map is not None:
            assert (
                shown.own_map.rows == tuple(result.tokens) and shown.own_map.columns == shown.sentence.source
            )
            assert abs(stored_weights(shown.own_map.weights) - result.attention_map).max() <= 0.004
            logs = result.token_log_probs
            assert shown.log_prob == pytest.approx(result.log_probability / len(logs))


def test_forced_map_equal_maps_of_forced_decoding(soft):
    translator, system = soft
    for shown, line in zip(system.sentences, translator.score(PAIRS), strict=True):
        assert (shown.forced_map is None) == (line.error is not None)
        if shown.forced_map is not None:
            words = merge_subwords(
                line.posterior_attention[-1][:-1].mean(axis=1), line.source_word_ids, line.target_word_ids
            )
            assert abs(stored_weights(shown.forced_map.weights) - words).max() <= 0.004
            assert shown.forced_map.rows == line.target_words


def test_maps_of_a_bounded_model_have_a_sink_column(tmp_path):
    system = collect(make_translator(tmp_path, fertility=1.0))
    shown = system.sentences[0]
    assert (
        system.has_fertilities
        and shown.own_map is not None
        and shown.own_map.columns == ("a", "b", "c", "<sink>")
    )
    received = shown.sentence.received
    assert received is not None and received.fertility == (1.0,) * 3 and received.sink is not None
    totals = stored_weights(shown.own_map.weights).sum(axis=0)
    assert totals == pytest.approx([*received.attention, received.sink], abs=0.05)


def test_scores_equal_the_metrics(soft):
    _, system = soft
    # Each word is linked to the word at the same position; words without a link count as dropped.
    linked = add_word_links(
        system, lambda pairs: [frozenset((i, i) for i in range(min(map(len, pair)))) for pair in pairs]
    )
    copied = collect(FileTranslator([reference for _, reference in PAIRS]))
    copied = add_word_links(copied, lambda pairs: [frozenset({(0, 0)})] * len(pairs))
    scores = compute_scores([linked, copied], PAIRS, "none", num_resamples=20)
    outputs, references = [one.text for one in system.sentences], [[reference for _, reference in PAIRS]]
    for key in ("bleu", "chrf"):
        score = count_statistics(key, outputs, references, "none").corpus_score()
        assert scores.table[key][0].value == pytest.approx(score)
        assert scores.table[key][1].value == pytest.approx(100)
        assert scores.table[key][1].difference.value == pytest.approx(100 - score)
    # Sentence scores of a copy are 100, even for short sentences.
    assert scores.sentence_scores["bleu"][1] == pytest.approx([100] * len(PAIRS))
    counts = count_errors([one.sentence for one in linked.sentences])
    expected = {name: one.corpus_score() for name, one in counts.items()}
    assert {key: scores.table[key][0].value for key in expected} == pytest.approx(expected)
    assert set(expected) == {"rep", "drop"}
    assert scores.attention[1] is None and scores.attention[0].sentences == 3
    assert len(scores.missing_reasons) == 1 and "--gold-links" in scores.missing_reasons[0]


def test_translations_from_a_file_are_tokenized_like_the_model(soft):
    translator, _ = soft
    lines = [reference for _, reference in PAIRS]
    for file in (FileTranslator(lines), FileTranslator(lines, translator.text)):
        system = collect(file)
        assert [one.text for one in system.sentences] == lines
        assert [one.sentence.source for one in system.sentences] == [tuple(line.split()) for line, _ in PAIRS]
        assert [one.sentence.output for one in system.sentences] == [tuple(line.split()) for line in lines]
        assert system.attention == () and all(one.own_map is None for one in system.sentences)


def test_curves_are_read_from_the_record_without_values_that_are_no_numbers(tmp_path):
    assert read_curves(tmp_path) is None
    lines = (
        '{"kind": "train", "step": 50, "perplexity": 9.5}',
        '{"kind": "validation", "step": 60, "perplexity": 8.0, "bleu": 20.5, "best": true}',
        '{"kind": "train", "step": "x", "perplexity": 1e99}',
        '{"kind"',
    )
    (tmp_path / "record.jsonl").write_text("\n".join(lines))
    curves = read_curves(tmp_path)
    assert curves is not None
    assert curves.train == ((50.0, 9.5),) and curves.valid == ((60.0, 8.0),)
    assert curves.scores == {"bleu": ((60.0, 20.5),)}
    (tmp_path / "record.jsonl").write_text("damaged\n")
    assert read_curves(tmp_path) is None


def test_model_card_has_the_properties_of_the_model(tmp_path):
    translator = make_translator(tmp_path, fertility=2.0)
    card = model_card(System("one", ("nowhere",), translator))
    rows = {name: value for name, value, _ in card.rows()}
    parameters = sum(one.numel() for one in translator.model.parameters())
    assert rows["parameters"] == f"{parameters:,}" and rows["location"] == "nowhere"
    assert rows["attention"] == "constrained, sparsemax, scaled_bilinear, fertility: constant"
    # Seven words and the special symbols.
    assert rows["tokenizer"] == " → ".join([f"words ({7 + len(SPECIAL_TOKENS)})"] * 2)
    # The size of the training text is unknown without a model directory.
    assert "training text" not in rows
