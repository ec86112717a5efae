"""A damaged or forged phrase-based system is rejected or translates, and never indexes beyond its arrays."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from toy_table import Beam, toy_decoder

from regard.data.sealed import seal
from regard.data.text import Side, TextPair
from regard.data.tokenizers.words import WordsConfig, WordsTokenizer
from regard.data.vocabulary import SPECIALS, Vocabulary
from regard.errors import CheckpointError, DataError
from regard.smt.config import PhraseConfig
from regard.smt.decoder import Decoder
from regard.smt.language_model import LanguageModel
from regard.smt.model import load_decoder, phrases_of, save_phrases
from regard.smt.phrase_table import PhraseTable

SMALL = Beam(stack=20)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return toy_decoder(3, SMALL)[0]


@pytest.fixture
def saved(decoder: Decoder, tmp_path: Path) -> Path:
    save_phrases(tmp_path, decoder, 1.0, "of this text")
    return tmp_path


def sizes(decoder: Decoder) -> tuple[int, int]:
    """Return the sizes of the source and the target vocabulary."""
    return decoder.table.trie.levels[2] - 1, len(decoder.language_ids)


def text_of(decoder: Decoder) -> TextPair:
    """Return a text pair with vocabularies of the decoder's sizes."""
    tokenizer = WordsTokenizer(WordsConfig())
    sides = (
        Vocabulary((*SPECIALS, *(f"w{i}" for i in range(size - len(SPECIALS))))) for size in sizes(decoder)
    )
    source, target = (Side(tokenizer, vocabulary) for vocabulary in sides)
    return TextPair(source, target)


def test_damaged_file_is_named(saved: Path, decoder: Decoder) -> None:
    rng = random.Random(1)
    files = sorted((saved / "phrase").glob("*.npy"))
    assert len(files) == 18
    for path in files:
        whole = path.read_bytes()
        for _ in range(10):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(damaged))
            with pytest.raises(CheckpointError, match=f"{path.name}: truncated or altered"):
                load_decoder(saved, text_of(decoder), PhraseConfig())
        path.write_bytes(whole)
    assert load_decoder(saved, text_of(decoder), PhraseConfig())[1] == 1.0


def test_file_names_outside_the_directory_are_rejected(saved: Path, decoder: Decoder) -> None:
    about = saved / "phrase" / "about.json"
    content = json.loads(about.read_text())
    (saved / "other").write_text("x")
    content["sha256"] |= seal(saved, ["other"])
    content["sha256"]["../other"] = content["sha256"].pop("other")
    about.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="expected the plain name"):
        load_decoder(saved, text_of(decoder), PhraseConfig())


def test_malformed_description_is_rejected(saved: Path) -> None:
    about = saved / "phrase" / "about.json"
    content = json.loads(about.read_text())
    wrong = [content | {name: [[1]]} for name in ("format", "bleu", "weights", "sha256", "fingerprint")]
    texts = [*map(json.dumps, wrong), "[" * 4000 + "]" * 4000, '{"format": ' + "1" * 5000 + "}", "\0"]
    for text in texts:
        about.write_text(text)
        with pytest.raises(CheckpointError, match=r"about\.json: not the description"):
            phrases_of(saved)


@pytest.mark.parametrize("part", [PhraseTable, LanguageModel])
def test_forged_arrays_are_rejected_or_translate(part, decoder: Decoder, tmp_path: Path) -> None:
    """Forged arrays have valid checksums, so the checks must keep every index within its array."""
    rng = np.random.default_rng(5)
    (decoder.table if part is PhraseTable else decoder.model).save(tmp_path)
    refused = 0
    for path in sorted(tmp_path.glob("*.npy")):
        whole = path.read_bytes()
        for case in range(25):
            array = np.load(path).copy()
            values = array.reshape(-1).view(np.uint8) if case % 2 else array.reshape(-1)
            place = rng.integers(values.size)
            values[place] = (
                rng.integers(256) if case % 2 else rng.choice([-1, 2**31 - 1, 0, values[place] + 1])
            )
            np.save(path, array if case % 5 else array[:-1])
            refused += not loads_and_translates(part, decoder, tmp_path)
            path.write_bytes(whole)
    assert refused > 100


def loads_and_translates(part, decoder: Decoder, directory: Path) -> bool:
    """Return False if loading is refused; otherwise translate and return True."""
    try:
        loaded = part.load(directory)
        if part is PhraseTable:
            loaded.check(*sizes(decoder))
    except DataError:
        return False
    table, model = (loaded, decoder.model) if part is PhraseTable else (decoder.table, loaded)
    if part is LanguageModel and len(loaded.spelling) != len(decoder.model.spelling):
        return True
    forged = Decoder(table, model, decoder.language_ids, decoder.weights, decoder.lexicalised, SMALL)
    forged.translate([[0, 1, 2, -1], [2, 0]], nbest=3)
    return True
