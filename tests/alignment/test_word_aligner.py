"""Aligners of both directions: how right they are, and that what is kept is what was trained."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from regard.alignment import Corpus, Setting, WordAligner, train_both
from regard.alignment.bayes import BayesConfig
from regard.alignment.hmm import HMMConfig
from regard.alignment.ibm import IBM1Config, IBM2Config
from regard.alignment.ibm3 import IBM3Config
from regard.data.links import GoldLinks, read_gold
from regard.data.sealed import seal
from regard.errors import DataError
from regard.metrics.alignment import alignment_score

HANSARDS = Path(__file__).parents[3] / "shared" / "data" / "hansards"
CONFIGS = [IBM1Config(), IBM2Config(), HMMConfig(null_probability=0.1), BayesConfig(chains=2)]


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda config: config.kind)
def trained(request, phrases):
    return train_both(phrases[1], request.param, Setting(threads=2), lowercase=True)


def words_of(aligner, pairs):
    return Corpus.from_tokens(pairs, aligner.words, allow_empty=True)


def test_error_on_the_phrasebook_is_small(trained, phrases):
    pairs, corpus = phrases
    gold = [GoldLinks(pair.links, pair.links) for pair in pairs]
    assert alignment_score(trained.align(corpus), gold).aer < 0.15
    assert alignment_score(trained.align(corpus, "intersection"), gold).precision > 0.94


def test_what_was_kept_aligns_new_text_to_the_link(trained, phrases, tmp_path):
    trained.save(tmp_path / "aligner")
    loaded = WordAligner.load(tmp_path / "aligner")
    assert loaded.lowercase and loaded.words == trained.words
    new = [(pair.source, ["unseen", *pair.target]) for pair in phrases[0][:50]] + [([], ["the"])]
    corpus = words_of(loaded, new)
    for method in ("grow-diag-final-and", "intersection", "forward", "backward"):
        assert list(loaded.align(corpus, method)) == list(trained.align(corpus, method))
    for one, other in zip(loaded.posteriors(corpus), trained.posteriors(corpus), strict=True):
        np.testing.assert_array_equal(one, other)


def test_posteriors_of_both_directions_are_their_mean(trained, phrases):
    corpus = phrases[1].part(0, 5)
    one, other = (list(trained.posteriors(corpus, method)) for method in ("forward", "backward"))
    for found, a, b in zip(trained.posteriors(corpus), one, other, strict=True):
        np.testing.assert_allclose(found, (a + b) / 2)


def test_a_file_that_was_altered_or_is_missing_is_refused(phrases, tmp_path):
    folder = tmp_path / "aligner"
    train_both(phrases[1].part(0, 50), IBM1Config(), Setting(threads=1)).save(folder)
    content = (folder / "source.words").read_bytes()
    (folder / "source.words").write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"source\.words: truncated or altered"):
        WordAligner.load(folder)
    (folder / "source.words").unlink()
    with pytest.raises(DataError, match=r"source\.words"):
        WordAligner.load(folder)
    with pytest.raises(DataError, match=r"aligner\.json"):
        WordAligner.load(tmp_path)


def test_a_direction_that_was_not_trained_is_named(phrases, tmp_path):
    aligner = train_both(phrases[1].part(0, 50), IBM1Config(), Setting(threads=1), directions=("forward",))
    aligner.save(tmp_path / "aligner")
    loaded = WordAligner.load(tmp_path / "aligner")
    assert list(loaded.align(phrases[1].part(0, 3), "forward"))
    with pytest.raises(DataError, match="backward"):
        loaded.align(phrases[1].part(0, 3), "intersection")


@pytest.mark.skipif(not HANSARDS.exists(), reason="no ../shared/data/hansards beside the project")
def test_the_hmm_has_far_fewer_errors_than_model_2_on_real_text():
    names = ["valid-2k.{}.gz", "test-3k.{}.gz", "gold-test.{}"]
    from regard.data.corpus import read_lines

    english, french = (
        [line.split() for name in names for line in read_lines(HANSARDS / name.format(side))]
        for side in ("en", "fr")
    )
    corpus = Corpus.from_tokens(zip(english, french, strict=True))
    gold = list(read_gold(HANSARDS / "gold-test.talp"))
    scores = {}
    for config in (IBM2Config(), HMMConfig()):
        aligner = train_both(corpus, config, Setting(threads=2))
        links = list(aligner.align(corpus))[-len(gold) :]
        scores[config.kind] = alignment_score(links, gold).aer
    assert scores["hmm"] < scores["ibm2"] - 0.03


def forge(folder, name, arrays):
    """Put other arrays in the place of a direction's, checksum and all."""
    save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, folder / name)
    about = json.loads((folder / "aligner.json").read_text())
    about["sha256"] |= seal(folder, [name])
    (folder / "aligner.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    "config",
    [IBM1Config(), HMMConfig(iterations=1), IBM3Config(iterations=1), BayesConfig(chains=1, effort=0.1)],
    ids=lambda config: config.kind,
)
def test_forged_arrays_are_refused_or_harmless(config, phrases, tmp_path):
    """Whoever forges arrays forges their checksums, too: what counts is that no index leaves its array."""
    folder, draw = tmp_path / "aligner", np.random.default_rng(1)
    train_both(phrases[1].part(0, 60), config, Setting(threads=1)).save(folder)
    name, new, refused = "forward.safetensors", phrases[0][60:64], 0
    whole = load_file(folder / name)
    for key in whole:
        for case in range(12):
            array = whole[key].copy()
            flat = array.reshape(-1)
            worst = [-1, 2**31 - 1, 0, flat[0] + 1] if array.dtype.kind == "i" else [np.nan, np.inf, -1, 1e38]
            flat[draw.integers(flat.size)] = worst[case % 4]
            forge(folder, name, whole | {key: array[:-1] if case > 9 else array})
            try:
                loaded = WordAligner.load(folder)
            except DataError as error:
                assert "forward.safetensors: not the arrays" in str(error)
                refused += 1
            else:
                corpus = words_of(loaded, [(pair.source, pair.target) for pair in new])
                loaded.align(corpus, "forward", threads=1)
    assert refused > 4 * len(whole)
    kept = json.loads((folder / "aligner.json").read_text())
    for wrong in ({"kind": "none"}, {"settings": {"chains": -1, "null": 7}}, {"settings": [1]}):
        (folder / "aligner.json").write_text(json.dumps(kept | {"forward": kept["forward"] | wrong}))
        with pytest.raises(DataError, match="not the"):
            WordAligner.load(folder)


def test_words_that_are_not_utf_8_are_an_error_of_the_file(phrases, tmp_path):
    folder = tmp_path / "aligner"
    train_both(phrases[1].part(0, 20), IBM1Config(), Setting(threads=1)).save(folder)
    (folder / "source.words").write_bytes(b"\xff\n")
    about = json.loads((folder / "aligner.json").read_text())
    about["sha256"] |= seal(folder, ["source.words"])
    (folder / "aligner.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"source\.words: not UTF-8 at byte 1"):
        WordAligner.load(folder)
