"""A Hugging Face model behind the HTTP API."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'regard[serve]'")

from tiny import ModelDir

from extensions.serve.served import ask
from regard.extensions.serve.engine import load_engines


@pytest.mark.parametrize("name", ["bart", "mbart"])
def test_hugging_face_model_is_served_with_attention(name: str, model_dir: ModelDir) -> None:
    engines = load_engines([model_dir(name)], "cpu")
    line = "die Katze schläft ."

    async def work(one):
        response = await one.post("/translate", json={"text": line, "split": False, "beam_size": 2})
        assert response.status_code == 200, response.text
        (best,) = response.json()["sentences"]
        pair = {"source": line, "target": "the cat sleeps ."}
        return best, (await one.post("/score", json={"pairs": [pair]})).json()

    best, scored = ask(engines, work)
    assert best["source_words"] == line.split() and best["sink"]
    # One column per word, and one for the special tokens around the sentence.
    assert np.shape(best["word_attention_map"]) == (len(best["target_words"]), 5)
    assert np.allclose(np.sum(best["word_attention_map"], axis=1), 1, atol=1e-3)
    assert all(0 <= place < 4 for place, _ in best["alignment"])
    assert scored["sentences"][0]["log_probability"] < 0
