"""Attribution in Hugging Face models: gradients of their embeddings, and scores without a source token."""

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import numpy as np
import tiny
import torch
from tiny import ModelDir

import regard
from regard.generation.attribution import attribute
from regard.generation.config import AlignmentConfig
from regard.generation.neural_translator import NeuralTranslator
from regard.runs.loading import load_model
from regard.text.vocabulary import EOS

PAIRS = [("ein kleiner Hund läuft .", "a small dog"), ("die Katze", "the cat sleeps .")]


@pytest.mark.parametrize("name", tiny.WHOLE)
def test_gradients_equal_finite_differences_of_the_embeddings(name: str, model_dir: ModelDir) -> None:
    found = load_model(model_dir(name), "cpu")
    model, text = found.model, found.text
    ids = [text.source.encode(source) for source, _ in PAIRS]
    pairs = text.batch(ids, [[*text.target.encode(target), EOS] for _, target in PAIRS], range(len(PAIRS)))
    values = attribute(model, pairs, AlignmentConfig(map="gradient"))
    words, size = pairs.source.word_mask, 3e-3
    assert values.abs().max() > 0.02 and not values.masked_select(~words.unsqueeze(1)).any()
    embedding = model.model.get_encoder().get_input_embeddings()
    # Our tokens at the encoder's positions, after the prefix of the tokenizer (a language code).
    place = model.layout.prefix_length + 1

    def log_likelihood(factor: float) -> torch.Tensor:
        calls = []

        def scale(_, __, output: torch.Tensor) -> torch.Tensor:
            calls.append(output.shape)
            scaled = output.clone()
            scaled[:, place] *= factor
            # A shared embedding is called again for the target.
            return scaled if len(calls) == 1 else output

        handle = embedding.register_forward_hook(scale)
        with torch.no_grad():
            logs = model(pairs).log_likelihood
        handle.remove()
        return logs

    difference = (log_likelihood(1 + size) - log_likelihood(1 - size)) / (2 * size)
    # The library computes logits in float32.
    torch.testing.assert_close(values[:, :, 1].float(), difference, atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize("name", ["marian", "nllb", "t5"])
def test_leaving_out_a_token_equals_scoring_without_it(name: str, model_dir: ModelDir) -> None:
    found = load_model(model_dir(name), "cpu")
    translator = NeuralTranslator(found.model, found.text, found.config.generation)
    (shown,) = translator.with_search({"map": "leave_one_out"}).score(PAIRS[:1])
    source, target = found.text.source.encode(PAIRS[0][0]), found.text.target.encode(PAIRS[0][1])

    def probabilities(ids: list[int]) -> np.ndarray:
        pair = found.text.batch([ids], [[*target, EOS]], [0])
        with torch.no_grad():
            return found.model(pair).log_likelihood[0].exp().numpy()

    assert shown is not None and shown.contributions is not None
    for place in range(len(source)):
        expected = probabilities(source) - probabilities([*source[:place], *source[place + 1 :]])
        np.testing.assert_allclose(shown.contributions[:, place], expected, atol=1e-6)
    assert not shown.contributions[:, len(source) :].any()  # the special symbols


@pytest.mark.parametrize("name", ["bart", "mbart"])
@pytest.mark.parametrize("method", ["gradient", "leave_one_out"])
def test_map_of_a_translation_sums_to_one_over_the_text(name: str, method: str, model_dir: ModelDir) -> None:
    model = regard.load(model_dir(name))
    made = model.translate(PAIRS[0][0], map=method, beam_size=2)
    (layer,) = made.attention
    assert layer.shape == (len(made.tokens) + 1, 1, len(made.source_tokens))
    sums = layer.sum(axis=2)
    assert np.all(np.isclose(sums, 1, atol=1e-5) | (sums == 0)) and sums.any()
    special = [number < 0 for number in made.source_word_ids]
    assert any(special) and not layer[:, :, special].any()
    assert made.to_dict()["alignment_config"]["map"] == method
    assert made.text == model.translate(PAIRS[0][0], beam_size=2).text
