"""`attn_implementation = "sparsemax"` and others in models of transformers."""

# pyright: basic

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import torch
import transformers

import regard.hf
from regard.errors import InfeasibleBoundsError, UsageError
from regard.extensions.hf.attention_functions import normalized_attention
from regard.extensions.hf.attention_session import AttentionSession, attention_forward, use_session
from regard.functional import constrained_sparsemax, entmax15, fusedmax, softmax, sparsemax

DEFINITIONS = {"sparsemax": sparsemax, "entmax15": entmax15, "fusedmax": fusedmax}
IDS = torch.tensor([[5, 7, 9, 4, 8, 3, 2], [6, 9, 8, 3, 0, 0, 0]])
MASK = (IDS > 0).long()

HEADS = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 16}
SIZES = {
    "bert": {**HEADS, "initializer_range": 0.6},
    "llama": {
        **HEADS, "num_attention_heads": 6, "num_key_value_heads": 2, "initializer_range": 0.6,
        "eos_token_id": None,
    },
    "bart": {
        "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "init_std": 0.6,
        "decoder_start_token_id": 2, "forced_eos_token_id": None, "eos_token_id": None,
    },
    "t5": {
        "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0,
        "eos_token_id": None,
    },
}  # fmt: skip


def build(kind: str, attention: str) -> transformers.PreTrainedModel:
    """Return a small model with an attention function."""
    auto = {"bert": transformers.AutoModel, "llama": transformers.AutoModelForCausalLM}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=20, max_position_embeddings=32, attn_implementation=attention, **SIZES[kind]
    )
    return auto.get(kind, transformers.AutoModelForSeq2SeqLM).from_config(config).eval()


def call(model, **options):
    """Call a model on padded sentences, with teacher forcing if it has a decoder."""
    if model.config.is_encoder_decoder:
        options["decoder_input_ids"] = IDS[:, :5]
    return model(IDS, attention_mask=MASK, output_attentions=True, **options)


def all_attentions(output) -> list[torch.Tensor]:
    names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [one for name in names for one in getattr(output, name, None) or ()]


@pytest.mark.parametrize("kind", ["bert", "llama", "bart", "t5"])
def test_softmax_of_the_library_is_reproduced_in_value_and_gradient(kind) -> None:
    """With softmax as the transformation, everything but the transformation is compared with the library."""
    regard.hf.register_attention_function("regard_softmax", softmax)
    results = []
    for name in ("eager", "regard_softmax"):
        model = build(kind, name).double()
        output = call(model)
        states = output[0] * MASK[:, : output[0].shape[1], None]  # without padding
        states.square().sum().backward()
        weights = torch.cat([one[0].flatten() for one in all_attentions(output)])
        results.append([states, weights, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(results[0]) == len(results[1]) > 10
    for one, other in zip(*results, strict=True):
        # Llama computes parts in float32, also in a model of float64.
        assert (one - other).norm() <= 1e-4 * other.norm() + 1e-8


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("kind", ["bert", "llama", "bart"])
def test_weights_are_those_of_the_plain_definition(kind, name) -> None:
    """Recompute the first layer's weights from its queries and keys."""
    seen = []

    def observed(scores, *, mask):
        seen.append((scores, mask))
        return DEFINITIONS[name](scores, mask=mask)

    regard.hf.register_attention_function("observed", observed)
    plain, watched = build(kind, name), build(kind, "observed")
    with torch.no_grad():
        found = all_attentions(call(plain))
        call(watched)
    assert len(found) == len(seen) >= 2
    lowest = 0
    for weights in found:
        # In padded positions of a target, causal attention is over real tokens.
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        lowest += int((weights == 0).sum())
    assert lowest > 10
    scores, mask = seen[0]
    for row in range(2):
        for head in range(scores.shape[1]):
            for query in range(scores.shape[2]):
                keep = mask[row, 0, query]
                expected = torch.zeros_like(scores[row, head, query])
                expected[keep] = DEFINITIONS[name](scores[row, head, query][keep])
                torch.testing.assert_close(found[0][row, head, query], expected, atol=1e-5, rtol=1e-4)


def test_padding_does_not_change_a_sentence() -> None:
    model = build("bert", "sparsemax")
    with torch.no_grad():
        both = call(model)
        alone = model(IDS[1:, :4], output_attentions=True)
    torch.testing.assert_close(both[0][1, :4], alone[0][0], atol=1e-5, rtol=1e-4)
    assert (both.attentions[0][1, :, :, 4:] == 0).all()


@pytest.mark.parametrize("kind", ["llama", "bart", "t5"])
@pytest.mark.parametrize("cache", [None, "static"])
def test_generation_with_a_cache_equals_teacher_forcing(kind, cache) -> None:
    if cache and kind == "t5":
        pytest.skip("one model of each kind is enough")
    model = build(kind, "entmax15")
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": 1}
    settings = {"cache_implementation": cache} if cache else {}
    found = model.generate(IDS, attention_mask=torch.ones_like(IDS), pad_token_id=0, **options, **settings)
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            logits = model(IDS, attention_mask=torch.ones_like(IDS), decoder_input_ids=found[:, :-1]).logits
            assert torch.equal(logits.argmax(-1)[:, -5:], found[:, -5:])
        else:
            logits = model(found[:, :-1]).logits
            assert torch.equal(logits.argmax(-1)[:, 6:], found[:, 7:])


def test_dropout_acts_on_the_weights_in_training_only() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 30, 8) for _ in range(3))
    module = torch.nn.Identity()

    def contexts(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        module.train(train)
        return normalized_attention(
            lambda _, scores, mask: sparsemax(scores, mask=mask), module, query, key, value, None, dropout=0.4
        )

    exact, weights = contexts(False)
    torch.testing.assert_close(exact, (weights @ value).transpose(1, 2))
    mean = torch.stack([contexts(True)[0] for _ in range(400)]).mean(0)
    noisy, same = contexts(True)
    assert torch.equal(same, weights) and not torch.allclose(noisy, exact)
    # Four standard errors: a weight w has the variance w^2 p / (1 - p).
    error = ((weights**2 @ value**2) * 0.4 / 0.6 / 400).sqrt().transpose(1, 2)
    assert ((mean - exact).abs() <= 5 * error + 1e-5).all()


def test_masks_with_values_and_a_longer_mask_are_accepted() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, 4, 8) for _ in range(3))
    keep = torch.tensor([True, False, True, True])
    forward = partial(normalized_attention, lambda _, z, mask: sparsemax(z, mask=mask), torch.nn.Identity())
    bias = torch.randn(1, 1, 4, 4)
    low = bias.masked_fill(~keep, torch.finfo(torch.float32).min)
    _, found = forward(query, key, value, torch.nn.functional.pad(low, (0, 3)))
    scores = query @ key.transpose(2, 3) / 8**0.5
    torch.testing.assert_close(found, sparsemax(scores + bias, mask=keep))
    _, found = forward(query, key, value, keep, position_bias=bias, scaling=1.0)
    torch.testing.assert_close(found, sparsemax(8**0.5 * scores + bias, mask=keep))
    _, causal = forward(query, key, value, None, is_causal=True)
    torch.testing.assert_close(causal, sparsemax(scores, mask=torch.ones(4, 4).tril().bool()))
    with pytest.raises(UsageError, match="continuous batching"):
        forward(query, key, value, None, cache=object())


def test_soft_cap_and_sinks_follow_the_library() -> None:
    """With softmax, the weights are those of Gemma 2 and of GPT-OSS."""
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss

    torch.manual_seed(0)
    query, key, value = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8)
    module = torch.nn.Identity().eval()
    module.num_key_value_groups, module.sinks = 2, torch.randn(4)
    forward = partial(normalized_attention, lambda _, z, mask: softmax(z, mask=mask), module)
    found = forward(query, key, value, None, softcap=0.5)
    for one, other in zip(
        found, gemma(module, query, key, value, None, scaling=8**-0.5, softcap=0.5), strict=True
    ):
        torch.testing.assert_close(one, other)
    found = forward(query, key, value, None, s_aux=module.sinks)
    expected = gpt_oss(module, query, key, value, torch.zeros(1, 1, 3, 3), scaling=8**-0.5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_recorded_weights_of_half_precision_sum_to_one() -> None:
    query, key, value = torch.randn(3, 2, 2, 9, 8).bfloat16()
    session = AttentionSession([], torch.ones(2, 9, dtype=torch.bool), output_attentions="all")
    with use_session(session):
        contexts, _ = attention_forward(torch.nn.Identity(), query, key, value, None)
    (weights,) = session.self_attentions
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 9))
    assert contexts.dtype == torch.bfloat16


def test_bounds_hold_for_every_weight() -> None:
    model = build("bert", "constrained_sparsemax")
    upper = torch.full((2, 1, 1, 7), 0.5)
    upper[:, :, :, 1] = 0.3
    with torch.no_grad(), regard.hf.attention_bounds(upper):
        found = call(model)
    for weights in found.attentions:
        assert (weights <= upper + 1e-6).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 7))
    assert any(float(weights[..., 1].max()) > 0.29 for weights in found.attentions)


@pytest.mark.parametrize("name", ["constrained_sparsemax", "constrained_softmax"])
def test_loose_bounds_and_modules_without_bounds_are_unconstrained(name) -> None:
    model = build("bert", name)
    plain = build("bert", "sparsemax" if name.endswith("sparsemax") else "eager")
    first = model.encoder.layer[0].attention.self
    with torch.no_grad():
        expected = call(plain).attentions
        with regard.hf.attention_bounds(1.0):
            loose = call(model).attentions
        with regard.hf.attention_bounds(0.4, modules=[first]):
            partly = call(model).attentions
    for one, other in zip(loose, expected, strict=True):
        torch.testing.assert_close(one[0], other[0], atol=1e-5, rtol=1e-4)
    assert float(partly[0].max()) <= 0.4 + 1e-6 < float(partly[1].max())


def cross_attention(model) -> list[torch.nn.Module]:
    return [one for name, one in model.named_modules() if name.endswith("encoder_attn")]


def test_budget_over_the_target_holds_in_training_and_in_generation() -> None:
    model = build("bart", "constrained_sparsemax")
    fertility = torch.full((2, 7), 0.9)
    fertility[:, 0] = torch.inf  # a sink
    ones = torch.ones_like(IDS)
    with torch.no_grad(), regard.hf.attention_budget(fertility, modules=cross_attention(model)):
        found = model.generate(
            IDS, attention_mask=ones, max_new_tokens=6, min_new_tokens=6, do_sample=False, num_beams=1,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
    steps = [torch.cat([step[layer] for step in found.cross_attentions], 2) for layer in range(2)]
    with torch.no_grad(), regard.hf.attention_budget(fertility, modules=cross_attention(model)):
        forced = model(
            IDS, attention_mask=ones, decoder_input_ids=found.sequences[:, :-1], output_attentions=True
        )
    assert torch.equal(forced.logits.argmax(-1), found.sequences[:, 1:])
    for step, weights in zip(steps, forced.cross_attentions, strict=True):
        torch.testing.assert_close(step, weights, atol=1e-5, rtol=1e-4)
        received = weights.sum(2)
        assert (received[:, :, 1:] <= 0.9 + 1e-5).all() and (received[:, :, 1:] > 0.9 - 1e-3).any()
    # The recursion of the paper: u_t = f - beta_{t-1}.
    received = torch.zeros(2, 2, 7)
    for weights in steps[0].unbind(2):
        again = constrained_sparsemax(weights * 50, (fertility[:, None] - received).clamp_min(0))
        assert ((again > 0) <= (fertility[:, None] - received > 0)).all()
        received = received + weights


def test_padding_of_the_target_spends_no_budget() -> None:
    model = build("bart", "constrained_softmax")
    real = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    with torch.no_grad():
        with regard.hf.attention_budget(1.0, modules=cross_attention(model), target_mask=real):
            weights = call(model).cross_attentions[0]
        with pytest.raises(InfeasibleBoundsError), regard.hf.attention_budget(0.5):
            call(model)
    assert (weights[1, :, 2:] == 0).all()
    torch.testing.assert_close(weights[1, :, :2].sum(-1), torch.ones(2, 2))
    assert float(weights.sum(2).max()) <= 1 + 1e-5


def test_gradient_of_bounds_is_numerical_gradient() -> None:
    model = build("bert", "constrained_sparsemax").double()
    upper = torch.full((1, 1, 1, 7), 0.35, dtype=torch.float64, requires_grad=True)

    def loss(bound: torch.Tensor) -> torch.Tensor:
        with regard.hf.attention_bounds(bound):
            return model(IDS[:1])[0][0, 0].square().sum()

    assert torch.autograd.gradcheck(loss, upper, eps=1e-7, atol=1e-3, rtol=1e-3)


def test_constrained_attention_without_bounds_is_refused() -> None:
    model = build("bert", "constrained_softmax")
    with pytest.raises(UsageError, match=r"needs bounds: call the model within .*attention_bounds"):
        model(IDS)


@pytest.mark.slow
def test_compiled_model_has_one_graph_and_equal_results() -> None:
    command = [sys.executable, "-m", "compiled_bert"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "40 equal tensors\n"
