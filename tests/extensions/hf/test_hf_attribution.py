"""Attribution in Hugging Face models: gradients of their embeddings, and scores without a source token."""

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import numpy as np
import tiny
import torch
from tiny import ModelDir

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
    loaded = load_model(model_dir(name), "cpu")
    translator = NeuralTranslator(loaded.model, loaded.text, loaded.config.generation)
    (scored,) = translator.with_search({"map": "leave_one_out"}).score(PAIRS[:1])
    source, target = loaded.text.source.encode(PAIRS[0][0]), loaded.text.target.encode(PAIRS[0][1])

    def probabilities(ids: list[int]) -> np.ndarray:
        pair = loaded.text.batch([ids], [[*target, EOS]], [0])
        with torch.no_grad():
            return loaded.model(pair).log_likelihood[0].exp().numpy()

    for place in range(len(source)):
        expected = probabilities(source) - probabilities([*source[:place], *source[place + 1 :]])
        np.testing.assert_allclose(scored.contributions[:, place], expected, atol=1e-6)
    assert not scored.contributions[:, len(source) :].any()  # the special symbols
