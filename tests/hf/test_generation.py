"""The settings of generation of a directory: translations are those of the library's own `generate`."""

# pyright: basic

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers
from test_seq2seq import batch, library, loaded, unsaid
from tiny import Folder

from regard.api.loading import search_settings
from regard.data.vocabulary import UNK
from regard.decoding.beam import beam_search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.translate import LineResult, Translator, number_lines
from regard.errors import CheckpointError
from regard.experiment import load_model

LINES = [
    "ein kleiner Hund läuft im Garten .",
    "die Katze",
    "der Mann liest ein Buch auf dem Sofa .",
    "Katze",
    "die die die Katze liest .",
    "im Garten schläft der kleine Mann",
]
SETTINGS: dict[str, dict[str, Any]] = {
    "bart-large-cnn": {
        "num_beams": 4, "length_penalty": 2.0, "min_length": 6, "max_length": 24, "no_repeat_ngram_size": 3,
        "early_stopping": True, "forced_bos_token_id": "bos", "forced_eos_token_id": "eos",
    },
    "opus-mt": {
        "num_beams": 6, "max_length": 20, "forced_eos_token_id": "eos", "renormalize_logits": True,
        "bad_words_ids": [["pad"]],
    },
    "never": {
        "num_beams": 3, "length_penalty": 0.6, "early_stopping": "never", "max_new_tokens": 16,
        "min_new_tokens": 4, "no_repeat_ngram_size": 2,
    },
    "short": {
        "num_beams": 4, "length_penalty": -0.5, "max_length": 14, "suppress_tokens": [9, 12],
        "begin_suppress_tokens": [7, 8], "bad_words_ids": [["pad"], [11, 14], [13, 13], [6, 6, 6]],
    },
    "greedy": {"num_beams": 1, "max_length": 18, "forced_eos_token_id": "eos"},
}  # fmt: skip
NAMES = [*tiny.WHOLE, "mt5"]


def settled(folder: Path, into: Path, settings: dict[str, Any], ending: float = 0.0) -> Path:
    """A copy of a directory with settings of generation.

    What regard has no token for is excluded, as OPUS-MT's models exclude padding.

    Args:
        folder: The directory.
        into: Its copy.
        settings: The settings; symbols by their names.
        ending: What is added to the end symbol's logit, where the model has a bias.
    """
    shutil.copytree(folder, into)
    model, tokenizer = library(into)
    config, generation = model.config, model.generation_config
    symbols = {"bos": getattr(config, "bos_token_id", None), "eos": config.eos_token_id}
    if generation.forced_bos_token_id is not None:  # a language
        symbols["bos"] = generation.forced_bos_token_id
    for name, value in settings.items():
        if name == "bad_words_ids":
            value = [[config.pad_token_id if one == "pad" else one for one in word] for word in value]
        setattr(generation, name, symbols[value] if value in ("bos", "eos") else value)
    never = {*unsaid(model, tokenizer), *(generation.suppress_tokens or ())}
    generation.suppress_tokens = sorted(never)
    if ending and hasattr(model, "final_logits_bias"):
        model.final_logits_bias[0, config.eos_token_id] += ending
    model.save_pretrained(into)
    return into


def generated(folder: Path, **options: Any) -> tuple[list[list[int]], list[float] | None]:
    """What the library's own search finds: the tokens after the start symbol, and the scores of a beam."""
    model, tokenizer = library(folder)
    found = model.generate(
        **tokenizer(LINES, return_tensors="pt", padding=True),
        output_scores=True, return_dict_in_generate=True, **options,
    )  # fmt: skip
    scores = getattr(found, "sequences_scores", None)
    return [row[1:].tolist() for row in found.sequences], None if scores is None else scores.tolist()


def assert_same(folder: Path, ours: list[Hypothesis], theirs: list[list[int]]) -> None:
    """Compare token by token, the place of the end included."""
    one, end = loaded(folder), library(folder)[1].eos_token_id
    places = one.text.target.tokenizer.places
    for own, row in zip(ours, theirs, strict=True):
        mine = [*one.model.start[1:], *(places[token] for token in own.tokens)]
        assert mine == (row[: row.index(end)] if end in row else row)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SETTINGS)
def test_translations_are_those_of_generate_line_by_line(
    kind: str, name: str, folder: Folder, tmp_path: Path
) -> None:
    made = settled(folder(name), tmp_path / name, SETTINGS[kind])
    one = loaded(made)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.search)]
    theirs, scores = generated(made)
    assert_same(made, ours, theirs)
    if scores is not None:
        assert [own.score for own in ours] == pytest.approx(scores, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["bart", "mbart", "marian"])
def test_translations_that_end_by_themselves_end_where_those_of_generate_do(
    name: str, folder: Folder, tmp_path: Path
) -> None:
    settings = {"num_beams": 1, "max_length": 40}
    made = settled(folder(name), tmp_path / name, settings, ending=4.0)
    one = loaded(made)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.search)]
    theirs, _ = generated(made)
    assert_same(made, ours, theirs)
    assert sum(len(own.tokens) < 37 for own in ours) >= 2


def test_flags_override_the_settings(folder: Folder, tmp_path: Path) -> None:
    made = settled(folder("bart"), tmp_path / "bart", SETTINGS["bart-large-cnn"])
    one = loaded(made)
    flags = {"beam": 2, "length_penalty": 0.5, "no_repeat_ngram": 2, "min_length": 3, "nbest": 2}
    search = search_settings(one.config.search, flags)
    found = beam_search(one.model, batch(one, LINES).source, search)
    options = {"num_beams": 2, "length_penalty": 0.5, "no_repeat_ngram_size": 2, "min_length": 3}
    theirs, _ = generated(made, **options, num_return_sequences=2)
    assert_same(made, [own for both in found for own in both], theirs)


def test_unknown_tokens_are_generated_where_generate_does(folder: Folder, tmp_path: Path) -> None:
    made = settled(folder("marian"), tmp_path / "marian", SETTINGS["opus-mt"])
    path = made / "generation_config.json"
    settings = json.loads(path.read_text())
    unknown = library(made)[1].unk_token_id
    settings["suppress_tokens"] = [one for one in settings["suppress_tokens"] if one != unknown]
    path.write_text(json.dumps(settings))
    ours = [result.translations[0].hypothesis for result in translator(made)]
    theirs, _ = generated(made)
    assert_same(made, ours, theirs)
    assert any(unknown in row for row in theirs)
    asked = [result.translations[0].hypothesis for result in translator(made, forbid_unknown=True)]
    assert not any(UNK in found.tokens for found in asked)


def translator(folder: Path, **flags: Any) -> list[LineResult]:
    """What our translator finds, as the command and the Python interface ask it."""
    one = loaded(folder)
    search = search_settings(one.config.search, flags)
    return list(Translator(one.model, one.text, search).translate(number_lines(LINES)))


def test_settings_stand_in_the_configuration_of_older_directories(folder: Folder, tmp_path: Path) -> None:
    made = Path(shutil.copytree(folder("bart"), tmp_path / "bart"))
    content = json.loads((made / "config.json").read_text())
    older = {"num_beams": 3, "length_penalty": 2.0, "max_length": 12, "forced_bos_token_id": 0}
    never = unsaid(*library(made))
    (made / "config.json").write_text(json.dumps(content | older | {"suppress_tokens": never}))
    (made / "generation_config.json").unlink()
    one = loaded(made)
    assert (one.config.search.beam, one.config.search.length_penalty) == (3, 2.0)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.search)]
    assert_same(made, ours, generated(made)[0])


def test_a_directory_without_settings_is_searched_with_our_beam_and_length(folder: Folder) -> None:
    search = loaded(folder("t5")).config.search
    assert (search.beam, search.max_length_ratio, search.max_length_extra) == (5, 2.0, 10)
    assert search.scheme.transformers and not search.scheme.forced_end


def test_what_cannot_be_followed_is_said_once(
    folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Path(shutil.copytree(folder("bart"), tmp_path / "bart"))
    path = made / "generation_config.json"
    own = {"num_beams": 4, "repetition_penalty": 1.2, "num_return_sequences": 1, "guidance_scale": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    with caplog.at_level(logging.WARNING):
        loaded(made)
    said = [record.getMessage() for record in caplog.records if "regard ignores" in record.getMessage()]
    assert said == [f"{path}: regard ignores repetition_penalty = 1.2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"num_beams": "many"}', r"generation_config\.json: num_beams: Input should be a valid integer"),
        (
            '{"bad_words_ids": [7]}',
            r"generation_config\.json: bad_words_ids\.0: Input should be a valid array",
        ),
        ('{"num_beams": 4', r"generation_config\.json: Invalid JSON"),
    ],
)
def test_settings_that_are_not_of_their_kind_are_named(
    content: str, message: str, folder: Folder, tmp_path: Path
) -> None:
    made = Path(shutil.copytree(folder("bart"), tmp_path / "bart"))
    (made / "generation_config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        loaded(made)


def test_the_language_of_an_mbart_starts_its_translations_as_it_starts_them_in_training(
    tmp_path: Path,
) -> None:
    """The tokenizer of mBART (not mBART-50) ends targets with the language; training shifts it to the front.

    With a start symbol before it the model is asked what it never saw, and may not come to an end.
    """
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(letter, -6.0) for letter in ["▁", *tiny.LETTERS]]
    tokenizer = transformers.MBartTokenizer(vocab=pieces, src_lang="de_DE", tgt_lang="en_XX")
    torch.manual_seed(0)
    config = transformers.MBartConfig(vocab_size=len(tokenizer), **tiny.MULTILINGUAL)
    transformers.MBartForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    language = tokenizer.convert_tokens_to_ids("en_XX")
    labels = tokenizer(text_target=tiny.TEXT[2], return_tensors="pt")["input_ids"]
    first = transformers.models.mbart.modeling_mbart.shift_tokens_right(labels, tokenizer.pad_token_id)[0, 0]
    assert loaded(tmp_path).model.start == (language,) == (int(first),)
    # A first token that generation forces is taken before the language of the tokenizer...
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"forced_bos_token_id": 0}))
    assert loaded(tmp_path).model.start == (2, 0)
    # ... and a language that is asked for before both.
    asked = load_model(tmp_path, "cpu", settings=["data.target_tokenizer.language=de_DE"])
    assert asked.model.start == (tokenizer.convert_tokens_to_ids("de_DE"),)
