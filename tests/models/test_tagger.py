"""The fertility tagger and its training."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from regard.data.batch import BatchConfig, collate
from regard.data.phrasebook import split
from regard.errors import CheckpointError, DataError, UsageError
from regard.models.tagger import FertilityTagger, TaggerConfig
from regard.training.checkpoint import state_files
from regard.training.config import StopConfig, TrainingConfig
from regard.training.objectives import marginal
from regard.training.optimizer import AdamConfig
from regard.training.predictor import FertilityPredictor, Tagged, train_predictor
from regard.training.record import read_record
from regard.training.schedule import ConstantConfig
from regard.training.weights import load_weights

SMALL = TaggerConfig(embedding=64, width=32)


def settings(epochs=3, updates=0):
    return TrainingConfig(
        batch=BatchConfig(size=8),
        optimizer=AdamConfig(rate=0.02),
        schedule=ConstantConfig(),
        stop=StopConfig(epochs=epochs, updates=updates),
    )


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Products this small are slower on several threads, by far where others want the processors too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tagged(name, size):
    pairs = split(name, size, seed=1)
    return Tagged([pair.source for pair in pairs], [pair.fertilities for pair in pairs])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("predictor") / "new"
    result = train_predictor(made, tagged("train", 600), tagged("valid", 100), SMALL, settings())
    assert result.reason == "3 epochs"
    return made


def test_the_loss_is_cross_entropy_with_half_the_weight_on_fertility_1():
    model = FertilityTagger(SMALL, 20, 10).eval()
    batch = collate([[5, 6, 7], [8]], [[1, 3, 1], [2]], [0, 1])
    logits = model.log_probs(batch.source)[batch.source.mask]
    weights = torch.tensor([0.5] + [1.0] * 9)
    expected = F.cross_entropy(logits, torch.tensor([0, 2, 0, 1]), weights, reduction="sum")
    loss = marginal(model(batch))
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, F.nll_loss(logits, torch.tensor([0, 2, 0, 1]), reduction="sum"))


def test_the_expectation_of_a_uniform_distribution_is_the_middle_class():
    model = FertilityTagger(SMALL, 20, 10).eval()
    torch.nn.init.zeros_(model.output.weight)
    torch.nn.init.zeros_(model.output.bias)
    source = collate([[5, 6], [7]], None, [0, 1]).source
    torch.testing.assert_close(model.expected(source), torch.tensor([[5.5, 5.5], [5.5, 0.0]]))


def test_accuracy_and_f1_of_a_tagger_that_always_says_2(folder):
    predictor = FertilityPredictor.load(folder)
    with torch.no_grad():
        predictor.model.output.weight.zero_()
        predictor.model.output.bias.copy_(10.0 * F.one_hot(torch.tensor(1), predictor.model.classes))
    score = predictor.score(Tagged([["a", "b"], ["c", "d", "e"]], [[0, 2], [2, 3, 99]]))
    assert score.words == 5
    assert score.accuracy == pytest.approx(2 / 5)
    assert score.f1 == pytest.approx(2 * 2 / (5 + 4))


def test_a_sentence_is_given_the_same_alone_as_in_a_batch(folder):
    predictor = FertilityPredictor.load(folder)
    sentences = [*tagged("test", 90).sentences, []]
    together = predictor.expected(sentences)
    assert [len(own) for own in together] == [len(words) for words in sentences]
    for words, own in zip(sentences, together, strict=True):
        assert predictor.expected([words])[0] == pytest.approx(own, abs=1e-5)


def test_the_epoch_with_the_best_f1_is_kept_and_loads_to_what_was_measured(folder):
    entries = [entry for entry in read_record(folder) if entry["kind"] == "validation"]
    assert len(entries) == 3
    best = max(entries, key=lambda entry: entry["f1"])
    score = FertilityPredictor.load(folder).score(tagged("valid", 100))
    assert (score.f1, score.accuracy) == (best["f1"], best["accuracy"])
    assert score.loss == pytest.approx(best["loss"], rel=1e-6)


def test_on_the_phrasebook_nine_words_in_ten_are_right(folder):
    score = FertilityPredictor.load(folder).score(tagged("valid", 100))
    assert score.accuracy > 0.9
    assert score.f1 > 0.3


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(folder, tmp_path):
    train, valid = tagged("train", 600), tagged("valid", 100)
    for updates in (100, 0):
        train_predictor(tmp_path / "p", train, valid, SMALL, settings(updates=updates))
    one, other = (load_weights(state_files(made)[0]) for made in (folder, tmp_path / "p"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_largest_fertility_seen_is_a_class_of_its_own(tmp_path):
    few = Tagged([["a", "b"]] * 2, [[12, 1]] * 2)
    train_predictor(tmp_path / "p", few, few, SMALL, settings(epochs=1))
    assert FertilityPredictor.load(tmp_path / "p").model.classes == 12


def test_a_run_killed_while_it_wrote_its_first_file_goes_on(tmp_path):
    few = Tagged([["a", "b"]] * 2, [[1, 2]] * 2)
    left = tmp_path / "p" / ".predictor.json.0123abcd.partial"
    left.mkdir(parents=True)
    (left / "predictor.json").write_bytes(b"{")
    (tmp_path / "p" / ".lock").touch()
    train_predictor(tmp_path / "p", few, few, SMALL, settings(epochs=1))
    assert FertilityPredictor.load(tmp_path / "p").vocabulary and not left.exists()


def test_a_predictor_is_not_read_beside_other_words(folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "p"))
    lines = (copy / "source.vocabulary").read_text(encoding="utf-8").splitlines()
    lines[-2:] = reversed(lines[-2:])
    (copy / "source.vocabulary").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"source\.vocabulary: the checksum differs"):
        FertilityPredictor.load(copy)


def test_a_folder_of_something_else_is_left_alone(folder, tmp_path):
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(UsageError, match="other texts or options"):
        train_predictor(folder, tagged("train", 30), tagged("valid", 10), SMALL, settings())
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    (tmp_path / "model.safetensors").write_text("mine")
    with pytest.raises(UsageError, match="contains other files"):
        train_predictor(tmp_path, tagged("train", 30), tagged("valid", 10), SMALL, settings())
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_mistakes_are_one_clear_message(folder, tmp_path):
    nothing = Tagged([[]], [[]])
    with pytest.raises(DataError, match="the training text .* contains no word"):
        train_predictor(tmp_path / "p", nothing, tagged("valid", 10))
    with pytest.raises(DataError, match="the validation text .* contains no word"):
        train_predictor(tmp_path / "p", tagged("train", 10), nothing)
    assert not (tmp_path / "p").exists()
    with pytest.raises(DataError, match=r"predictor\.json"):
        FertilityPredictor.load(tmp_path)
    (tmp_path / "predictor.json").write_text(json.dumps({"classes": 3}))
    with pytest.raises(DataError, match="not the description"):
        FertilityPredictor.load(tmp_path)
    for name in ("predictor.json", "source.vocabulary"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(CheckpointError, match="model"):
        FertilityPredictor.load(tmp_path)
