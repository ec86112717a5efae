"""Embeddings of words and sentences by encoders that transformers saved."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
import transformers

from regard.extensions.hf.text_encoder import TextEncoder

SENTENCES = [line.split() for line in tiny.TEXT]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(1)
    tiny.bert(directory, layers=4)
    return directory


def test_a_word_is_the_mean_of_its_tokens_and_a_sentence_that_of_the_last_layer(directory) -> None:
    sentence = ["the", "cats", "sleep"]  # several tokens of the last two
    words, sentences = TextEncoder(directory, 1).embed([sentence])
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    encoded = tokenizer(sentence, is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        model = transformers.AutoModel.from_pretrained(directory).eval()
        layers = model(**encoded, output_hidden_states=True).hidden_states
    owners = encoded.word_ids()
    assert len(owners) > 2 + len(sentence)
    for number, vector in enumerate(words):
        tokens = [place for place, owner in enumerate(owners) if owner == number]
        # The second of four layers: 0.6 times their number, rounded.
        mean = layers[2][0, tokens].mean(dim=0)
        np.testing.assert_allclose(vector, mean / mean.norm(), atol=1e-5)
    mean = layers[-1][0].mean(dim=0)
    np.testing.assert_allclose(sentences[0], mean / mean.norm(), atol=1e-5)


def test_embeddings_do_not_depend_on_the_batch(directory, monkeypatch) -> None:
    encoder = TextEncoder(directory, 1)
    together = encoder.embed([*SENTENCES, []])
    assert together[0].shape == (sum(map(len, SENTENCES)), 16) and len(together[1]) == len(SENTENCES) + 1
    monkeypatch.setattr("regard.extensions.hf.text_encoder._BATCH_SIZE", 1)
    for values, others in zip(together, encoder.embed([*SENTENCES, []]), strict=True):
        np.testing.assert_allclose(values, others, atol=1e-5)


def test_all_words_of_a_long_sentence_have_embeddings(directory) -> None:
    words, sentences = TextEncoder(directory, 1).embed([SENTENCES[0] * 30])
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), np.ones(7 * 30), atol=1e-5)
    assert np.linalg.norm(sentences[0]) == pytest.approx(1)
