"""Tests of the precision of a model's matrix multiplications."""

import pytest
import torch
from torch import nn
from wirings import CONVS, LSTMS, TRANSFORMERS, batch, bounds, build, config

from regard.data.batch import collate
from regard.errors import UsageError
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.kernels.matmul import Int8Weight
from regard.models import precision
from regard.models.precision import parse_precision, set_precision

pytestmark = pytest.mark.usefixtures("exact_int8")

WIRINGS = {
    **{
        name: LSTMS[name]
        for name in ("luong", "bahdanau", "dense state initialization", "tied", "gru", "prior-joint")
    },
    **{name: LSTMS[name] for name in ("linear output layer", "convolutional encoder", "constrained")},
    **{f"transformer, {name}": TRANSFORMERS[name] for name in ("post-norm", "pre-norm", "constrained")},
    **{f"convolutional, {name}": CONVS[name] for name in ("gehring", "wide kernels", "constrained")},
}


@pytest.fixture(params=list(WIRINGS))
def wiring(request, monkeypatch):
    monkeypatch.setattr(precision, "MIN_INT8_SIZE", 1)  # the models of the tests are smaller than this limit
    return WIRINGS[request.param]


def test_int8_approximates_float32(wiring) -> None:
    data = batch(((7, 6), (4, 8), (1, 1)))
    with torch.inference_mode():
        exact = build(wiring).float().eval()(data).log_likelihood
        model = build(wiring).eval()
        set_precision(model, "int8")
        found = model(data).log_likelihood
    assert found.dtype == torch.float32 and not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.1)


def test_int8_beam_search_is_batch_invariant(wiring) -> None:
    model, pairs = build(wiring).eval(), batch()
    set_precision(model, "int8")
    search = GenerationConfig(
        beam_size=3, num_return=3, length_penalty=0.5, max_length_ratio=1.0, max_length_offset=3
    )
    together = beam_search(model, pairs.source, search, upper=pairs.upper_bounds)
    for row, length in enumerate(pairs.source.lengths.tolist()):
        sentence = pairs.source.tokens[row, :length].tolist()
        single = collate([sentence], None, [0], [bounds(length)])
        (alone,) = beam_search(model, single.source, search, upper=single.upper_bounds)
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]
        for mine, other in zip(alone, together[row], strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-5)


def test_small_matrices_and_vectors_are_not_quantized() -> None:
    model = nn.ModuleDict(
        {"wide": nn.Linear(16, 20), "narrow": nn.Linear(16, 15), "normed": nn.LayerNorm(16)}
    )
    set_precision(model, "int8")
    kept = {name for name, one in model.named_parameters() if isinstance(one, Int8Weight)}
    assert kept == {"wide.weight"}


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_other_precisions_set_the_dtype_of_all_parameters(name, dtype) -> None:
    model = build(config())
    set_precision(model, parse_precision(name))
    assert {one.dtype for one in model.parameters()} == {dtype}
    assert not any(isinstance(one, Int8Weight) for one in model.parameters())


def test_shared_parameter_is_replaced_by_one_weight() -> None:
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
    model[1].weight = model[0].weight
    set_precision(model, "int8")
    assert isinstance(model[0].weight, Int8Weight) and model[1].weight is model[0].weight


def test_unknown_precision_raises_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="'float8': expected float32, bfloat16 or int8"):
        parse_precision("float8")
