"""Tests of the attention used for display and links: the configured, a selected one, or the posterior."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_runs import LINES, run, translate, write_lines

import regard
from regard.config import to_dict
from regard.errors import UsageError
from regard.extensions.serve.engine import SearchSettings, SentenceJob, load_engines
from regard.generation.config import AlignmentConfig
from regard.text.links import format_links
from regard.text.vocabulary import UNK
from regard.training.run_config import load_config
from saved_models import save_model

LINE = "e f g a b"
SIDE = {"num_layers": 2}
TRANSFORMER = {
    "kind": "transformer",
    "d_model": 8,
    "num_heads": 2,
    "encoder": SIDE,
    "decoder": SIDE,
    "tie_embeddings": "none",
}
GUIDED = AlignmentConfig(layer=0, heads=(1,))


def sharpen(network: torch.nn.Module) -> None:
    """Give a model weights with which its attention is peaked."""
    for name, value in network.named_parameters():
        if "source" in name and value.dim() > 1:
            torch.nn.init.uniform_(value, -1.5, 1.5)


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Transformer whose configuration takes links from head 1 of layer 0."""
    directory, generation = tmp_path_factory.mktemp("guided"), {"alignment": to_dict(GUIDED)}
    return save_model(directory, 2, model=TRANSFORMER, generation=generation, initialize=sharpen)


@pytest.fixture(scope="module")
def posterior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    attention = {"kind": "posterior", "top_k": 0}
    return save_model(tmp_path_factory.mktemp("posterior"), 2, attention=attention, initialize=sharpen)


def entries(model: Path, file: Path, *options: object) -> list[dict[str, object]]:
    translate(model, "--attention-output", file, *options)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def best(weights: np.ndarray) -> str:
    """Return the links of an attention map in which each word is one token."""
    return " ".join(f"{s}-{t}" for s, t in sorted((int(row.argmax()), t) for t, row in enumerate(weights)))


SELECTIONS = [
    ((), lambda layers: layers[0][:-1, 1]),
    (("--layer", -1), lambda layers: layers[1][:-1].mean(1)),
    (("--layer", 1, "--head", 0), lambda layers: layers[1][:-1, 0]),
    (("--head", -2), lambda layers: layers[0][:-1, 0]),
]


@pytest.mark.parametrize(("options", "expected"), SELECTIONS)
def test_translate_and_score_link_by_the_selected_attention(guided, tmp_path, options, expected) -> None:
    links, again = tmp_path / "links", tmp_path / "again"
    found = entries(guided, tmp_path / "all.jsonl", "--links-output", links, *options)
    written = links.read_text().splitlines()
    for entry, link in zip(found, written, strict=True):
        layers = [np.array(layer) for layer in entry["posterior_attention"]]
        assert link == (best(expected(layers)) if layers else "")
    kept = [(line, entry) for line, entry in zip(LINES, found, strict=True) if line]
    write_lines(tmp_path / "in", (line for line, _ in kept))
    write_lines(tmp_path / "out", (str(entry["text"]) for _, entry in kept))
    run("score", guided, tmp_path / "in", tmp_path / "out", "--links-output", again, *options)
    assert again.read_text().splitlines() == [link for line, link in zip(LINES, written, strict=True) if line]


def test_selections_give_different_links(guided, tmp_path) -> None:
    all_entries = [entries(guided, tmp_path / "all.jsonl", *options) for options, _ in SELECTIONS]
    distinct = {json.dumps([entry["alignment"] for entry in found]) for found in all_entries}
    assert len(distinct) == len(SELECTIONS)


@pytest.mark.parametrize(("options", "expected"), SELECTIONS)
def test_python_and_server_return_the_same_attention(guided, options, expected) -> None:
    options_by_name = dict(zip([str(o).lstrip("-") for o in options[::2]], options[1::2], strict=False))
    result = regard.load(guided).translate(LINE, **options_by_name)
    weights = expected(result.attention)
    np.testing.assert_array_equal(result.attention_map, weights)
    assert {(s, t) for s, t in result.alignment.tolist()} == {
        (int(r.argmax()), t) for t, r in enumerate(weights)
    }
    again = regard.load(guided, **options_by_name).score(LINE, result.text)
    np.testing.assert_allclose(again.attention_map, weights, atol=1e-6)
    (engine,) = load_engines([guided], "cpu", output_attention=options_by_name)
    (answer,) = engine.process_batch(SearchSettings(), [SentenceJob(LINE)])
    np.testing.assert_allclose(answer["word_attention_map"], weights, atol=1e-4)


def test_plot_uses_the_configured_attention_by_default(guided) -> None:
    result = regard.load(guided).translate(LINE)
    assert result.plot().svg == result.plot(layer=0, head=1).svg != result.plot(layer=-1).svg
    assert result.plot(layer=0).svg == result.plot(layer=0, head="mean").svg
    with pytest.raises(UsageError, match="layer 2: the translation attends to the source in 2"):
        result.plot(layer=2)
    with pytest.raises(UsageError, match="head -3: layer 0 of the translation has 2"):
        result.plot(head=-3)


def test_unknown_words_are_replaced_by_the_selected_attention(guided, tmp_path) -> None:
    model = regard.load(guided)
    with torch.no_grad():
        model.backend.model.output_bias[UNK] = 50.0
    assert load_config(guided).generation.alignment == GUIDED
    for given in ({}, {"layer": -1}):
        result = model.translate(LINE, replace_unk=True, max_length_offset=2, **given)
        assert set(result.tokens) == {"<unk>"}
        assert result.text.split() == [LINE.split()[s] for s in result.attention_map.argmax(1)]


def test_prior_and_posterior_are_written(posterior, tmp_path) -> None:
    found = [entry for entry in entries(posterior, tmp_path / "all.jsonl") if entry["tokens"]]
    num_different = 0
    for entry in found:
        (prior,), (after,) = (np.array(entry[name]) for name in ("attention", "posterior_attention"))
        assert prior.shape == after.shape == (len(entry["tokens"]) + 1, 1, len(entry["source_tokens"]))
        assert format_links(entry["alignment"]) == best(after[:-1, 0])
        num_different += format_links(entry["alignment"]) != best(prior[:-1, 0])
    assert num_different  # otherwise the prior would pass, too


def test_analysis_records_the_attention_it_examined(guided, tmp_path) -> None:
    (tmp_path / "in").write_text(f"{LINE}\n")
    (tmp_path / "ref").write_text("A B C\n")
    scored = regard.load(guided).score(LINE, "A B C")
    for options, weights in (((), scored.attention[0][:, 1]), (("--layer", 1), scored.attention[1])):
        numbers = tmp_path / "numbers.json"
        texts = ("--source", tmp_path / "in", "--reference", tmp_path / "ref")
        run("analyze", "attention", guided, *texts, "--json", numbers, *options)
        data = json.loads(numbers.read_text())
        assert data["attention"] == "posterior"
        (found,) = data["models"].values()
        rows = weights if weights.ndim == 3 else weights[:, None]
        entropy = -(rows * np.log(rows)).sum(-1).mean(1)
        np.testing.assert_allclose(found["lines"][0]["entropy"], entropy, atol=1e-4)
        assert found["lines"][0]["links"] == best(rows[:-1].mean(1))
    assert found["alignment"] == {"map": "attention", "layer": 1, "heads": []}
