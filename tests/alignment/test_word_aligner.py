"""Tests of bidirectional aligners: link quality, saving and loading, damaged files, and long pairs."""

import json
import logging
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors

import regard
from regard.alignment import Corpus, TrainingSetup, WordAligner, register_aligner, train_both
from regard.alignment.base import ALIGNERS, default_config
from regard.alignment.bayes_sampler import BayesConfig
from regard.alignment.hmm import HMMConfig
from regard.alignment.ibm import IBM1Config, IBM2Config, IBMAligner
from regard.alignment.word_aligner import align_fertilities
from regard.config import configclass, from_dict, option
from regard.data.fertility import GuidedFertilityConfig
from regard.errors import DataError
from regard.metrics.alignment import alignment_score
from regard.testing import check_aligner
from regard.text.links import MAX_LENGTH, GoldLinks
from regard.text.reading import compute_checksums

SETUP = TrainingSetup(num_threads=1)
CONFIGS = [IBM1Config(), IBM2Config(), HMMConfig(null_probability=0.1), BayesConfig(num_chains=2)]


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda config: config.kind)
def trained(request, phrases):
    return train_both(phrases[1], request.param, TrainingSetup(num_threads=2), lowercase=True)


def words_of(aligner, pairs):
    return Corpus.from_tokens(pairs, aligner.words, allow_empty=True)


@pytest.mark.parametrize(
    "config",
    [*CONFIGS[:3], IBM1Config(null_word=False), HMMConfig(decoding="viterbi"), BayesConfig(effort=0.1)],
    ids=str,
)
def test_aligners_follow_the_laws_of_the_interface(config):
    check_aligner(config)


def test_alignment_error_rate_on_phrasebook_is_low(trained, phrases):
    pairs, corpus = phrases
    gold = [GoldLinks(pair.links, pair.links) for pair in pairs]
    assert alignment_score(trained.align(corpus), gold).aer < 0.15
    assert alignment_score(trained.align(corpus, "intersection"), gold).precision > 0.94


def test_loaded_aligner_gives_identical_links_on_new_text(trained, phrases, tmp_path):
    trained.save(tmp_path / "aligner")
    loaded = WordAligner.load(tmp_path / "aligner")
    assert loaded.lowercase and loaded.words == trained.words
    new = [(pair.source, ["unseen", *pair.target]) for pair in phrases[0][:50]] + [([], ["the"])]
    corpus = words_of(loaded, new)
    for method in ("grow-diag-final-and", "intersection", "forward", "backward"):
        assert list(loaded.align(corpus, method)) == list(trained.align(corpus, method))
    for one, other in zip(loaded.posteriors(corpus), trained.posteriors(corpus), strict=True):
        np.testing.assert_array_equal(one, other)


def test_altered_or_missing_files_and_untrained_directions_are_reported(phrases, tmp_path):
    directory, corpus = tmp_path / "aligner", phrases[1].subset(0, 50)
    train_both(corpus, IBM1Config(), SETUP, directions=("forward",)).save(directory)
    loaded = WordAligner.load(directory)
    assert list(loaded.align(corpus, "forward"))
    with pytest.raises(DataError, match="backward"):
        loaded.align(corpus, "intersection")
    content = (directory / "source.words").read_bytes()
    (directory / "source.words").write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"source\.words: truncated or altered"):
        WordAligner.load(directory)
    (directory / "source.words").unlink()
    with pytest.raises(DataError, match=r"source\.words"):
        WordAligner.load(directory)
    with pytest.raises(DataError, match=r"aligner\.json"):
        WordAligner.load(tmp_path)


def forge(directory, name, arrays):
    """Replace the arrays of one direction and update the checksum to match."""
    save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, directory / name)
    reseal(directory, name)


def reseal(directory, name):
    about = json.loads((directory / "aligner.json").read_text())
    about["sha256"] |= compute_checksums(directory, [name])
    (directory / "aligner.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    "config",
    [IBM1Config(), HMMConfig(iterations=1), BayesConfig(num_chains=1, effort=0.1)],
    ids=lambda config: config.kind,
)
def test_forged_arrays_raise_or_stay_in_bounds(config, phrases, tmp_path):
    """An attacker can update the checksum, too. Invalid values must raise or at least stay in bounds."""
    directory, rng = tmp_path / "aligner", np.random.default_rng(1)
    train_both(phrases[1].subset(0, 60), config, SETUP).save(directory)
    name, new, rejected = "forward.safetensors", phrases[0][60:64], 0
    # Cases 0-9 replace one value by an extreme one. The others truncate the array.
    whole = load_file(directory / name)
    for key in whole:
        for case in range(12):
            array = whole[key].copy()
            flat = array.reshape(-1)
            worst = [-1, 2**31 - 1, 0, flat[0] + 1] if array.dtype.kind == "i" else [np.nan, np.inf, -1, 1e38]
            flat[rng.integers(flat.size)] = worst[case % 4]
            forge(directory, name, whole | {key: array[:-1] if case > 9 else array})
            try:
                loaded = WordAligner.load(directory)
            except DataError as error:
                assert "forward.safetensors: not the arrays" in str(error)
                rejected += 1
            else:
                corpus = words_of(loaded, [(pair.source, pair.target) for pair in new])
                loaded.align(corpus, "forward", threads=1)
    assert rejected > 4 * len(whole)
    kept = json.loads((directory / "aligner.json").read_text())
    for wrong in ({"kind": "none"}, {"alpha": -7}, {"iteration": [1]}):
        (directory / "aligner.json").write_text(json.dumps(kept | {"forward": kept["forward"] | wrong}))
        with pytest.raises(DataError, match="not the"):
            WordAligner.load(directory)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float64", "int8"])
def test_arrays_of_another_dtype_or_name_are_named(phrases, tmp_path, dtype):
    directory, name = tmp_path / "aligner", "forward.safetensors"
    train_both(phrases[1].subset(0, 60), IBM1Config(), SETUP).save(directory)
    whole = load_file(directory / name)
    forge(directory, name, whole | {"other": whole["values"]})
    with pytest.raises(DataError, match=r"forward\.safetensors: .*other: unknown"):
        WordAligner.load(directory)
    values = torch.from_numpy(whole["values"]).to(getattr(torch, dtype))
    tensors = {key: torch.from_numpy(array) for key, array in whole.items()}
    save_tensors(tensors | {"values": values}, directory / name)
    reseal(directory, name)
    with pytest.raises(DataError, match=r"forward\.safetensors: .*values: dtype "):
        WordAligner.load(directory)


@configclass
class OutsideConfig(IBM1Config):
    kind: Literal["outside"] = option(default="outside", help="An aligner from outside the package.")


class OutsideAligner(IBMAligner):
    pass


def test_registered_aligner_is_trained_saved_and_loaded(phrases, tmp_path, monkeypatch):
    monkeypatch.setattr(ALIGNERS, "_entries", dict(ALIGNERS._entries))
    register_aligner("outside", OutsideConfig)(OutsideAligner)
    assert from_dict(GuidedFertilityConfig, {"aligner": "outside"}).aligner == "outside"
    check_aligner(OutsideConfig(iterations=2))
    aligner = train_both(phrases[1], OutsideConfig(iterations=2), SETUP)
    aligner.save(tmp_path / "aligner")
    loaded = WordAligner.load(tmp_path / "aligner")
    assert isinstance(loaded.forward, OutsideAligner) and loaded.forward.config == OutsideConfig(iterations=2)
    assert list(loaded.align(phrases[1])) == list(aligner.align(phrases[1]))
    assert regard.align(["a b"], ["x y"], "outside")[0].shape[1] == 2


PAIRS = [(["a", "b"], ["x", "y"]), (["b", "a"], ["y", "x"]), (["a"], ["x"]), (["b"], ["y"])] * 5


def with_long_pairs(length: int) -> Corpus:
    """Return a text with three pairs of which a side is too long: both, the source, the target."""
    pairs = [*PAIRS[:3], (["a"] * length, ["x"] * length), *PAIRS[3:], (["a"] * length, ["x"])]
    return Corpus.from_tokens([*pairs, (["a"], ["x"] * length)])


@pytest.mark.parametrize("kind", ALIGNERS.names())
def test_long_pairs_get_no_links_and_others_those_of_the_text_without_them(kind, caplog):
    config, max_length = default_config(kind), ALIGNERS.get(kind).max_length
    corpus, plain = with_long_pairs(max_length + 1), Corpus.from_tokens(PAIRS)
    with caplog.at_level(logging.WARNING):
        aligner = train_both(corpus, config, SETUP)
        links = list(aligner.align(corpus, threads=1))
        posteriors = list(aligner.posteriors(corpus, threads=1))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"3 of 23 pairs have a side of more than {max_length} words")
    long = [3, 21, 22]
    assert all(links[row] == frozenset() for row in long)
    assert [posteriors[row].shape for row in long] == [
        (int(corpus.target.lengths[row]), int(corpus.source.lengths[row])) for row in long
    ]
    assert not any(posteriors[row].any() for row in long)
    others = [row for row in range(23) if row not in long]
    if kind != "bayes":  # its samples depend on the number of pairs
        reference = train_both(plain, config, SETUP)
        assert [links[row] for row in others] == list(reference.align(plain, threads=1))
        for row, expected in zip(others, reference.posteriors(plain, threads=1), strict=True):
            np.testing.assert_allclose(posteriors[row], expected, atol=1e-6)
    assert links[0] == {(0, 0), (1, 1)}


def test_pairs_of_the_maximum_length_are_aligned(caplog):
    words = [f"w{i}" for i in range(MAX_LENGTH)]
    corpus = Corpus.from_tokens([(words, words), *(([word], [word]) for word in words)])
    links = list(train_both(corpus, default_config("ibm1"), SETUP).align(corpus, threads=1))
    assert links[0] == {(i, i) for i in range(MAX_LENGTH)}
    assert not caplog.records


def test_fertilities_of_long_pairs_are_zero(caplog):
    corpus = with_long_pairs(MAX_LENGTH + 1)
    (counts,) = align_fertilities([corpus], SETUP, default_config("hmm"))
    by_pair = np.split(counts, corpus.source.offsets[1:-1])
    assert by_pair[0].tolist() == [1, 1]
    assert not any(by_pair[row].any() for row in (3, 21, 22))
    assert len(caplog.records) == 1
