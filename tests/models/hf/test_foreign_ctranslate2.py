"""CTranslate2 directories that other programs have written: translated, or refused with the reason."""

# pyright: basic

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")
pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'regard[ctranslate2]'")

import ctranslate2
import torch
import transformers
from transformers.utils import logging

import regard
from hf import tiny
from regard.api.loading import load_translator
from regard.errors import CheckpointError, UsageError
from regard.generation.lines import enumerate_lines

LINES = ["ein kleiner Hund läuft im Garten .", "die Katze schläft .", "der Mann"]
NOT_COPIED = ("model.safetensors", "config.json", "generation_config.json")
MakeExport = Callable[[str], tuple[Path, Path]]


def all_tokens(_: Any, model: Any, tokenizer: Any) -> list[str]:
    """Return a token for each row of the embeddings.

    The converter takes the language tokens of M2M-100 from an attribute that transformers 5 no longer fills.
    """
    names = tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size)))
    return [f"row{i}" if name is None else name for i, name in enumerate(names)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> MakeExport:
    """Return a function from a model of `tiny` to its directory, and CTranslate2's own conversion of it."""
    logging.disable_progress_bar()
    made: dict[str, tuple[Path, Path]] = {}

    def make(name: str) -> tuple[Path, Path]:
        if name not in made:
            torch.manual_seed(0)
            parent = tmp_path_factory.mktemp(name)
            tiny.WHOLE[name](parent / "original")
            names = [one.name for one in (parent / "original").iterdir() if one.name not in NOT_COPIED]
            # The converter copies files only from the Hub or as plain names of the directory.
            converter = ctranslate2.converters.TransformersConverter(str(parent / "original"))
            with pytest.MonkeyPatch.context() as patch:
                if name == "m2m100":
                    loader = ctranslate2.converters.transformers.M2M100Loader
                    patch.setattr(loader, "get_vocabulary", all_tokens)
                converter.convert(str(parent / "converted"))
            for file in names:
                shutil.copyfile(parent / "original" / file, parent / "converted" / file)
            made[name] = parent / "original", parent / "converted"
        return made[name]

    return make


@pytest.mark.parametrize("name", ["marian", "nllb", "m2m100", "t5"])
def test_translations_are_those_of_the_engine_and_of_generate(name: str, exported: MakeExport) -> None:
    original, directory = exported(name)
    options = {"max_length_ratio": 0, "max_length_offset": 10, "length_penalty": 0, "suppress_unk": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(original)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(original).eval()
    engine = ctranslate2.Translator(str(directory), device="cpu")
    sources = [tokenizer.convert_ids_to_tokens(tokenizer(line)["input_ids"]) for line in LINES]
    language = {"nllb": ["eng_Latn"], "m2m100": ["__en__"]}.get(name, [])
    # Rows of the embeddings without a token of the tokenizer, and padding, have no text.
    names = json.loads((directory / "shared_vocabulary.json").read_text())
    known = {*tokenizer.get_vocab()} - {tokenizer.pad_token}
    if name == "m2m100":  # its language tokens are not in `get_vocab`
        known |= {one for one in names if one.startswith("__")}
    rows = range(len(tokenizer), model.config.vocab_size)
    for beam in (1, 3):
        translator = load_translator([directory], "cpu", options={**options, "beam_size": beam})
        translated = [one.translations[0] for one in translator.translate(enumerate_lines(LINES))]
        found = [list(one.tokens) for one in translated]
        results = engine.translate_batch(
            sources,
            target_prefix=[language] * 3 if language else None,
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=11 + len(language),
            suppress_sequences=[[token] for token in names if token not in known],
        )
        for source, tokens, own, one in zip(sources, found, translated, results, strict=True):
            hypotheses = [made[len(language) :][:10] for made in one.hypotheses]
            scores = engine.score_batch([source] * beam, [[*language, *made] for made in hypotheses])
            totals = [sum(made.log_probs[len(language) :]) for made in scores]
            # The best hypothesis, with the probability of the end symbol.
            assert tokens == hypotheses[totals.index(max(totals))]
            assert own.score == pytest.approx(max(totals), abs=1e-4)
        if beam == 1:
            ids = model.generate(
                **tokenizer(LINES, return_tensors="pt", padding=True),
                num_beams=1,
                max_new_tokens=10 + len(language),
                suppress_tokens=[tokenizer.pad_token_id, *(row for row in rows if names[row] not in known)],
            )
            for own, row in zip(found, ids[:, 1 + len(language) :].tolist(), strict=True):
                end = tokenizer.eos_token_id
                theirs = row[: row.index(end)] if end in row else row
                assert tokenizer.convert_tokens_to_ids(own) == theirs


def test_missing_capabilities_are_refused_by_name(exported: MakeExport) -> None:
    model = regard.load(exported("marian")[1])
    with pytest.raises(UsageError, match=r"not supported by .*ctranslate2"):
        model.score(LINES[:1], ["the cat"])


def test_directory_without_tokenizer_is_refused_with_the_reason(exported: MakeExport, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(exported("marian")[1], tmp_path / "bare"))
    (directory / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match="without the files of its tokenizer"):
        regard.load(directory)


def test_tokenizer_of_another_model_is_refused(exported: MakeExport, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(exported("marian")[1], tmp_path / "other"))
    (directory / "shared_vocabulary.json").write_text(json.dumps(["<unk>", "</s>", "<pad>"]))
    with pytest.raises(CheckpointError, match=r"tokenizer does not belong to its model: .* contains 0 of"):
        regard.load(directory)
    (directory / "shared_vocabulary.json").unlink()
    with pytest.raises(CheckpointError, match="contains no vocabulary"):
        regard.load(directory)


def test_broken_model_is_refused_with_the_reason_of_the_engine(exported: MakeExport, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(exported("marian")[1], tmp_path / "broken"))
    (directory / "model.bin").write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="ctranslate2 cannot use this model"):
        regard.load(directory)
