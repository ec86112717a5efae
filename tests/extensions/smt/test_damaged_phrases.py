"""A damaged or forged phrase-based system is rejected or translates, and never indexes beyond its arrays."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from toy_table import SearchLimits, toy_decoder

from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError
from regard.extensions.smt.decoder import PhraseDecoder
from regard.extensions.smt.language_model import NgramLanguageModel
from regard.extensions.smt.model import PhraseConfig, load_phrases, read_description, save_phrases
from regard.extensions.smt.phrase_table import PhraseTable
from regard.text.array_files import load_arrays
from regard.text.vocabulary import SPECIAL_TOKENS
from saved_models import words_side

SMALL = SearchLimits(stack_size=20)


@pytest.fixture(scope="module")
def decoder() -> PhraseDecoder:
    return toy_decoder(3, SMALL)[0]


@pytest.fixture
def saved(decoder: PhraseDecoder, tmp_path: Path) -> Path:
    save_phrases(tmp_path, decoder, 1.0, "of this text")
    return tmp_path


def sizes(decoder: PhraseDecoder) -> tuple[int, int]:
    """Return the sizes of the source and the target vocabulary."""
    return decoder.table.trie.levels[2] - 1, len(decoder.language_ids)


def text_of(decoder: PhraseDecoder) -> TextProcessor:
    """Return a text pair with vocabularies of the decoder's sizes."""
    counts = (size - len(SPECIAL_TOKENS) for size in sizes(decoder))
    source, target = (words_side(" ".join(f"w{i}" for i in range(count))) for count in counts)
    return TextProcessor(source, target)


def test_damaged_file_is_named_and_a_whole_one_loads_exactly(saved: Path, decoder: PhraseDecoder) -> None:
    for path in (saved / "phrase" / name for name in ("phrases.safetensors", "language.safetensors")):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(CheckpointError, match=f"{path.name}: truncated or altered"):
            load_phrases(saved, PhraseConfig(), text_of(decoder))
        path.write_bytes(whole)
    loaded = load_phrases(saved, PhraseConfig(), text_of(decoder))
    assert all(map(np.array_equal, loaded.scoring.phrases, decoder.scoring.phrases))
    assert all(map(np.array_equal, loaded.scoring.language_model, decoder.scoring.language_model))
    assert read_description(saved).bleu == 1.0


def test_unwritable_directory_is_named_with_the_reason(decoder: PhraseDecoder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/phrase: cannot be written: File exists$"):
        save_phrases(tmp_path / "file", decoder, 1.0, "of this text")


def test_malformed_description_is_rejected(saved: Path) -> None:
    about = saved / "phrase" / "about.json"
    content = json.loads(about.read_text())
    wrong = [content | {name: [[1]]} for name in ("format", "bleu", "weights", "sha256", "fingerprint")]
    wrong.append(content | {"weights": content["weights"] | {"distortion": math.nan}})
    texts = [*map(json.dumps, wrong), "[" * 4000 + "]" * 4000, '{"format": ' + "1" * 5000 + "}", "\0"]
    for text in texts:
        about.write_text(text)
        with pytest.raises(CheckpointError, match=r"about\.json: not the description"):
            read_description(saved)


@pytest.mark.faults
@pytest.mark.parametrize("part", [PhraseTable, NgramLanguageModel])
def test_forged_arrays_are_rejected_or_translate(part, decoder: PhraseDecoder, tmp_path: Path) -> None:
    """Forged arrays have valid checksums, so the checks must keep every index within its array."""
    rng = np.random.default_rng(5)
    (decoder.table if part is PhraseTable else decoder.language_model).save(tmp_path)
    refused = 0
    [path] = tmp_path.glob("*.safetensors")
    arrays = load_arrays(path)
    for name, whole in arrays.items():
        for case in range(10):
            array = whole.copy()
            values = array.reshape(-1).view(np.uint8) if case % 2 else array.reshape(-1)
            place = rng.integers(values.size)
            values[place] = (
                rng.integers(256) if case % 2 else rng.choice([-1, 2**31 - 1, 0, values[place] + 1])
            )
            save_file(arrays | {name: array if case % 5 else array[:-1]}, path)
            refused += not loads_and_translates(part, decoder, tmp_path)
    assert refused > 40


def loads_and_translates(part, decoder: PhraseDecoder, directory: Path) -> bool:
    """Return False if loading is refused; otherwise translate and return True."""
    try:
        loaded = part.load(directory)
        if part is PhraseTable:
            loaded.check(*sizes(decoder))
    except DataError:
        return False
    table, model = (loaded, decoder.language_model) if part is PhraseTable else (decoder.table, loaded)
    if part is NgramLanguageModel and len(loaded.vocabulary) != len(decoder.language_model.vocabulary):
        return True
    forged = PhraseDecoder(table, model, decoder.language_ids, decoder.weights, decoder.lexicalized, SMALL)
    forged.translate([[0, 1, 2, -1], [2, 0]], num_return=3)
    return True
