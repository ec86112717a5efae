"""Tests of ensembles: the probabilities of the models are averaged at each time step."""

import numpy as np
import pytest

from generation.conftest import config
from regard.data.batch import collate
from regard.generation.beam import beam_search
from regard.generation.ensemble import Ensemble
from regard.generation.forced import force_decode
from regard.text.vocabulary import EOS


def test_ensemble_of_a_model_with_itself_equals_the_model(model, batch, sentences):
    search = config(beam_size=3, num_return=3)
    alone = beam_search(model, batch(sentences), search)
    twice = beam_search(Ensemble([model, model]), batch(sentences), search)
    for one, other in zip(alone, twice, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        for a, b in zip(one, other, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-5)
            both = np.concatenate([a.attention[0], a.attention[0]], axis=1)
            np.testing.assert_allclose(both, b.attention[0], atol=1e-6)


def test_probabilities_are_averaged_at_each_step(build, batch, sentences):
    models = [build(seed=1), build(seed=2, decoder={"input_feeding": "context"}), build(seed=3, two=True)]
    ensemble = Ensemble(models)
    found = beam_search(ensemble, batch(sentences), config(beam_size=4, num_return=2))
    for sentence, hypotheses in zip(sentences, found, strict=True):
        pairs = collate([sentence] * 2, [[*h.tokens, EOS] for h in hypotheses], [0, 1])
        members, forced = [force_decode(model, pairs) for model in models], force_decode(ensemble, pairs)
        for i, h in enumerate(hypotheses):
            each = np.exp([[*member[i].token_log_probs] for member in members])
            assert h.token_log_probs == pytest.approx(np.log(each.mean(axis=0)).tolist(), abs=1e-5)
            heads = np.concatenate([member[i].attention[0] for member in members], axis=1)
            np.testing.assert_allclose(h.attention[0], heads, atol=1e-5)
            assert forced[i].token_log_probs == pytest.approx(h.token_log_probs, abs=1e-5)
            np.testing.assert_allclose(forced[i].attention[0], heads, atol=1e-5)
