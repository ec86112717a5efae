"""The tour on a small corpus: training, stored results, scores, and the page."""

import dataclasses
import json
import re
import signal
from contextlib import nullcontext

import pytest
from command_runs import invoke

from regard.alignment import Corpus, WordAligner
from regard.analysis.inputs import no_progress
from regard.config import read_config
from regard.errors import DataError, TrainingInterruptedError, UsageError
from regard.extensions.tour import runner
from regard.extensions.tour.report import QuickstartResults, run_quickstart, write_report
from regard.extensions.tour.runner import SYSTEMS, Tour
from regard.metrics.alignment import alignment_score
from regard.text.files import recipes_dir
from regard.text.links import read_gold_links
from regard.training.run_config import RunConfig, load_config
from regard.training.trainer import TrainingResult

pytestmark = pytest.mark.slow

CHOSEN = [system for system in SYSTEMS if system.name in ("word", "none", "constrained")]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    made = Tour(
        tmp_path_factory.mktemp("tour"),
        {"train": 200, "valid": 12, "test": 12},
        overrides=("training.max_epochs=1", "generation.beam_size=2"),
    )
    made.write_corpus()
    return made


@pytest.fixture(scope="module")
def costs(tour: Tour):
    return {system: tour.train(system, nullcontext) for system in CHOSEN}


@pytest.fixture(scope="module")
def figures(tour: Tour, costs):
    made = write_report(tour, costs, no_progress)
    assert json.loads(made.to_json()) == made.to_dict()
    return made


def test_systems_and_recipes_correspond_and_share_their_data() -> None:
    found = {path.stem: read_config(RunConfig, path) for path in recipes_dir("tour").glob("*.toml")}
    assert found.keys() == {system.name for system in SYSTEMS}
    data = {name: dataclasses.replace(config.data, fertility=None) for name, config in found.items()}
    assert all(one == data["soft"] for one in data.values())
    assert {name for name, config in found.items() if config.model.kind == "phrase"} == {
        system.name for system in SYSTEMS if system.aligner
    }


def test_costs_are_measured_once_and_stored(tour: Tour, costs, monkeypatch) -> None:
    words, none, constrained = costs.values()
    assert constrained.num_parameters > none.num_parameters and words.num_parameters > 100
    assert none.megabytes == pytest.approx(4 * none.num_parameters / 1e6, rel=0.01)  # float32
    assert all(one.sentences_per_second > 0 and one.training_seconds for one in costs.values())
    monkeypatch.setattr(runner, "_measure", None)
    assert {system: tour.train(system, nullcontext) for system in CHOSEN} == costs


def test_settings_of_the_tour_apply_to_its_networks(tour: Tour, costs) -> None:
    assert load_config(tour.model_dir(CHOSEN[1])).training.max_epochs == 1
    assert load_config(tour.model_dir(CHOSEN[0])).training.max_epochs != 1


def test_alignment_error_of_first_system_equals_ibm_model_1(tour: Tour, figures) -> None:
    aligner = WordAligner.load(tour.output_dir / "aligners" / "ibm1")
    pairs = zip(
        *(tour.corpus_path("test", end).read_text().splitlines() for end in ("de", "en")), strict=True
    )
    cut = [(source.split(), target.split()) for source, target in pairs]
    links = list(aligner.align(Corpus.from_tokens(cut, aligner.words, allow_empty=True)))
    wanted = 100 * alignment_score(links, list(read_gold_links(tour.corpus_path("test", "talp")))).aer
    words, none, constrained = (system["scores"]["aer"] for system in figures.systems)
    assert words["value"] == pytest.approx(wanted)
    assert none is None and constrained["value"] != words["value"]


def test_page_has_every_system_with_its_cost(tour: Tour, figures, costs) -> None:
    text = (tour.output_dir / "tour.html").read_text(encoding="utf-8")
    data = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert data is not None
    report = json.loads(data[1])
    assert [system["name"] for system in report["systems"]] == [system.label for system in CHOSEN]
    assert all(system.citation in note for system, note in zip(CHOSEN, report["notes"], strict=False))
    columns = dict(report["columns"])
    assert columns["MB"] == [f"{one.megabytes:.1f}" for one in costs.values()]


def test_signal_stops_the_tour(tour: Tour, monkeypatch) -> None:
    monkeypatch.setattr(runner, "train", lambda *_: TrainingResult("a signal", signal.SIGTERM, None))
    with pytest.raises(TrainingInterruptedError) as stopped:
        tour.train(CHOSEN[1], nullcontext)
    assert stopped.value.signal == signal.SIGTERM


def test_command_reuses_the_models_and_shows_the_results(tour: Tour, figures, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(runner, "CORPUS_SIZES", {**tour.sizes})
    monkeypatch.setattr(Tour, "config", lambda self, system: load_config(self.model_dir(system)))
    names, file = ",".join(system.name for system in CHOSEN), tmp_path / "figures.json"
    options = ("--output-dir", tour.output_dir, "--systems", names, "--num-train", 200, "--json", file)
    result = invoke("tour", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(file.read_text()) == figures.to_dict()
    for system in figures.systems:
        row = next(line for line in result.stdout.splitlines() if line.startswith(system["label"]))
        assert f"{system['scores']['bleu']['value']:.1f}" in row


def test_finished_quickstart_returns_the_stored_results(tmp_path) -> None:
    systems = ({"name": "soft", "scores": {"aer": None}},)
    stored = QuickstartResults(systems, {"bleu": "a signature"}, tmp_path / "report.html", None)
    stored.save(tmp_path / "quickstart.json")
    assert run_quickstart(tmp_path, nullcontext).to_dict() == stored.to_dict()
    (tmp_path / "quickstart.json").write_text("[]")
    with pytest.raises(DataError, match="not the results of the quickstart"):
        run_quickstart(tmp_path, nullcontext)


def test_unknown_system_is_rejected_by_name() -> None:
    result = invoke("tour", "--systems", "soft,steam")
    assert isinstance(result.exception, UsageError) and "steam" in str(result.exception)
