"""A model of the library behind the API."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
pytest.importorskip("fastapi", reason="needs fastapi: pip install 'regard[serve]'")

from tiny import Folder

from regard.server.engine import load_engines
from server.served import ask


@pytest.mark.parametrize("name", ["bart", "mbart"])
def test_a_model_of_the_library_is_served_with_its_attention(name: str, folder: Folder) -> None:
    engines = load_engines([folder(name)], "cpu")
    line = "die Katze schläft ."

    async def work(one):
        said = await one.post("/translate", json={"text": line, "tokens": True, "split": False, "beam": 2})
        assert said.status_code == 200, said.text
        (sentence,) = said.json()["sentences"]
        best = sentence["translations"][0]
        pair = {"source": line, "target": "the cat sleeps ."}
        return sentence, best, (await one.post("/score", json={"pairs": [pair]})).json()

    sentence, best, scored = ask(engines, work)
    assert sentence["source_words"] == line.split() and sentence["sink"]
    # Beside the words a column of what the model reads around them.
    assert np.shape(best["attention"]) == (len(best["words"]), 5)
    assert np.allclose(np.sum(best["attention"], axis=1), 1, atol=1e-3)
    assert all(0 <= place < 4 for place, _ in best["alignment"])
    assert scored["pairs"][0]["log_probability"] < 0
