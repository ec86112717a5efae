"""Tests of the fertility tagger and its training."""

import pytest
import torch
from torch.nn import functional as F

from regard.data.batch import collate
from regard.extensions.phrasebook.corpus import generate_splits
from regard.models.rnn.tagger import FertilityTagger, TaggerConfig
from regard.runs.fertility_predictor import FertilityPredictor
from regard.runs.weights import load_weights, state_file
from regard.training.config import TrainingConfig
from regard.training.fertility import TaggedExamples, TaggedSentences, train_predictor
from regard.training.losses.objectives import marginal
from regard.training.metrics_logger import read_metrics
from regard.training.optimizer import AdamConfig, ConstantConfig

SMALL = TaggerConfig(embedding_size=64, hidden_size=32)


def settings(epochs=3, max_steps=0):
    return TrainingConfig(
        batch_size=8,
        optimizer=AdamConfig(learning_rate=0.02),
        lr_scheduler=ConstantConfig(),
        max_epochs=epochs,
        max_steps=max_steps,
    )


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Use one thread: small matrix multiplications are slower on several, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tagged(name, size):
    pairs = generate_splits({name: size}, seed=1)[name]
    return TaggedSentences([pair.source for pair in pairs], [pair.fertilities for pair in pairs])


@pytest.fixture(scope="module")
def trained_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("predictor") / "new"
    result = train_predictor(directory, tagged("train", 600), tagged("valid", 100), SMALL, settings())
    assert result.reason == "3 epochs"
    return directory


def test_loss_is_cross_entropy_with_weight_one_half_on_fertility_1():
    model = FertilityTagger(SMALL, 20, 10).eval()
    batch = collate([[5, 6, 7], [8]], [[1, 3, 1], [2]], [0, 1])
    logits = model.log_probs(batch.source)[batch.source.mask]
    weights = torch.tensor([0.5] + [1.0] * 9)
    expected = F.cross_entropy(logits, torch.tensor([0, 2, 0, 1]), weights, reduction="sum")
    loss = marginal(model(batch))
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, F.nll_loss(logits, torch.tensor([0, 2, 0, 1]), reduction="sum"))


def test_expectation_of_a_uniform_distribution_is_the_middle_class():
    model = FertilityTagger(SMALL, 20, 10).eval()
    torch.nn.init.zeros_(model.output.weight)
    torch.nn.init.zeros_(model.output.bias)
    source = collate([[5, 6], [7]], None, [0, 1]).source
    torch.testing.assert_close(model.expected_fertility(source), torch.tensor([[5.5, 5.5], [5.5, 0.0]]))


def test_accuracy_and_f1_of_a_tagger_that_always_predicts_2(trained_dir):
    predictor = FertilityPredictor.load(trained_dir)
    with torch.no_grad():
        predictor.model.output.weight.zero_()
        predictor.model.output.bias.copy_(10.0 * F.one_hot(torch.tensor(1), predictor.model.num_classes))
    examples = TaggedSentences([["a", "b"], ["c", "d", "e"]], [[0, 2], [2, 3, 99]])
    score = TaggedExamples(examples, predictor.vocabulary).score(predictor.model)
    assert score.num_words == 5
    assert score.accuracy == pytest.approx(2 / 5)
    assert score.f1 == pytest.approx(2 * 2 / (5 + 4))


def test_prediction_is_batch_invariant(trained_dir):
    predictor = FertilityPredictor.load(trained_dir)
    sentences = [*tagged("test", 90).sentences, []]
    together = predictor.expected_fertilities(sentences)
    assert [len(own) for own in together] == [len(words) for words in sentences]
    for words, own in zip(sentences, together, strict=True):
        assert predictor.expected_fertilities([words])[0] == pytest.approx(own, abs=1e-5)


def test_best_epoch_by_f1_is_kept_and_has_its_recorded_score(trained_dir):
    entries = [entry for entry in read_metrics(trained_dir) if entry["kind"] == "validation"]
    assert len(entries) == 3
    best = max(entries, key=lambda entry: entry["f1"])
    predictor = FertilityPredictor.load(trained_dir)
    score = TaggedExamples(tagged("valid", 100), predictor.vocabulary).score(predictor.model)
    assert (score.f1, score.accuracy) == (best["f1"], best["accuracy"])
    assert score.loss == pytest.approx(best["loss"], rel=1e-6)
    assert score.accuracy > 0.9 and score.f1 > 0.3


def test_resumed_run_reaches_the_same_weights(tmp_path):
    train, valid = tagged("train", 80), tagged("valid", 20)
    # The second run stops within its second epoch of 10 steps, and is resumed without this limit.
    for name, limits in (("once", (0,)), ("twice", (14, 0))):
        for max_steps in limits:
            train_predictor(tmp_path / name, train, valid, SMALL, settings(max_steps=max_steps))
    one, other = (load_weights(state_file(tmp_path / name)) for name in ("once", "twice"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_run_killed_during_its_first_write_can_be_resumed(tmp_path):
    small = TaggedSentences([["a", "b"]] * 2, [[12, 1]] * 2)
    partial = tmp_path / "p" / ".predictor.json.0123abcd.partial"
    partial.mkdir(parents=True)
    (partial / "predictor.json").write_bytes(b"{")
    train_predictor(tmp_path / "p", small, small, SMALL, settings(epochs=1))
    assert not partial.exists()
    # The number of classes is the largest fertility of the training text.
    assert FertilityPredictor.load(tmp_path / "p").model.num_classes == 12
