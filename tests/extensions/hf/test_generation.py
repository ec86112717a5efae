"""Generation settings of a model directory: translations equal those of `generate` in transformers."""

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
from test_seq2seq import batch, library, loaded
from tiny import ModelDir

from regard.generation.beam import beam_search
from regard.generation.config import search_settings
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.generation.translation import Translation
from regard.runs.loading import LoadedModel, load_model
from regard.text.vocabulary import SPECIAL_TOKENS, UNK

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


def suppressed_tokens(config: Any, tokenizer: Any) -> list[int]:
    """Return the ids that regard never generates: padding, unknown words, and ids without a token."""
    known = {*tokenizer.get_vocab().values(), *getattr(tokenizer, "id_to_lang_token", {})}
    none = [number for number in range(config.vocab_size) if number not in known]
    return [tokenizer.pad_token_id, tokenizer.unk_token_id, *none]


def with_settings(model_dir: Path, into: Path, settings: dict[str, Any], ending: float = 0.0) -> Path:
    """Copy a directory, with other settings for generation, and return the copy.

    Tokens that regard never generates are suppressed, as OPUS-MT models suppress padding.

    Args:
        model_dir: The directory.
        into: The copy.
        settings: The settings, with special tokens by name.
        ending: Value added to the logit of the end symbol, if the model has an output bias.
    """
    shutil.copytree(model_dir, into)
    config = transformers.AutoConfig.from_pretrained(into)
    generation = transformers.GenerationConfig.from_pretrained(into)
    tokenizer = transformers.AutoTokenizer.from_pretrained(into)
    symbols = {"bos": getattr(config, "bos_token_id", None), "eos": config.eos_token_id}
    if generation.forced_bos_token_id is not None:  # a language
        symbols["bos"] = generation.forced_bos_token_id
    for name, value in settings.items():
        if name == "bad_words_ids":
            value = [[config.pad_token_id if one == "pad" else one for one in word] for word in value]
        setattr(generation, name, symbols[value] if value in ("bos", "eos") else value)
    never = {*suppressed_tokens(config, tokenizer), *(generation.suppress_tokens or ())}
    generation.suppress_tokens = sorted(never)
    generation.save_pretrained(into)
    if ending:
        model, _ = library(into)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias[0, config.eos_token_id] += ending
        model.save_pretrained(into)
    return into


def generated(model_dir: Path, **options: Any) -> tuple[list[list[int]], list[float] | None]:
    """Return the translations of `generate`, between the start and the end symbol, and their scores."""
    model, tokenizer = library(model_dir)
    found = model.generate(
        **tokenizer(LINES, return_tensors="pt", padding=True),
        output_scores=True, return_dict_in_generate=True, **options,
    )  # fmt: skip
    scores = getattr(found, "sequences_scores", None)
    rows, end = [row[1:].tolist() for row in found.sequences], tokenizer.eos_token_id
    rows = [row[: row.index(end)] if end in row else row for row in rows]
    return rows, None if scores is None else scores.tolist()


def assert_same(
    one: LoadedModel, ours: list[Hypothesis] | list[Translation], theirs: list[list[int]]
) -> None:
    """Require equal tokens, including the position of the end symbol."""
    places, vocabulary = one.text.target.tokenizer.library_ids, one.text.target.vocabulary
    for own, row in zip(ours, theirs, strict=True):
        ids = vocabulary.to_ids(own.tokens) if isinstance(own, Translation) else own.tokens
        assert [*one.model.start[1:], *(places[token] for token in ids)] == row


@pytest.mark.parametrize("name", [*tiny.WHOLE, "t5gemma"])
@pytest.mark.parametrize("kind", SETTINGS)
def test_translations_equal_generate_for_each_line(
    kind: str, name: str, model_dir: ModelDir, tmp_path: Path
) -> None:
    made = with_settings(model_dir(name), tmp_path / name, SETTINGS[kind])
    one = loaded(made)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.generation)]
    theirs, scores = generated(made)
    assert_same(one, ours, theirs)
    if scores is not None:
        assert [own.score for own in ours] == pytest.approx(scores, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["bart", "mbart", "marian"])
def test_unforced_translations_end_where_generate_ends(
    name: str, model_dir: ModelDir, tmp_path: Path
) -> None:
    settings = {"num_beams": 1, "max_length": 40}
    made = with_settings(model_dir(name), tmp_path / name, settings, ending=4.0)
    one = loaded(made)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.generation)]
    theirs, _ = generated(made)
    assert_same(one, ours, theirs)
    assert sum(len(own.tokens) < 37 for own in ours) >= 2


def test_flags_override_the_generation_settings(model_dir: ModelDir, tmp_path: Path) -> None:
    made = with_settings(model_dir("bart"), tmp_path / "bart", SETTINGS["bart-large-cnn"])
    one = loaded(made)
    flags = {"length_penalty": 0.5, "no_repeat_ngram_size": 2, "min_length": 3}
    search = search_settings(one.config.generation, {**flags, "beam_size": 2, "num_return": 2})
    found = beam_search(one.model, batch(one, LINES).source, search)
    theirs, _ = generated(made, **flags, num_beams=2, num_return_sequences=2)
    assert_same(one, [own for both in found for own in both], theirs)


def test_unknown_tokens_are_generated_as_by_generate(model_dir: ModelDir, tmp_path: Path) -> None:
    made = with_settings(model_dir("marian"), tmp_path / "marian", SETTINGS["opus-mt"])
    path = made / "generation_config.json"
    settings = json.loads(path.read_text())
    unknown = library(made)[1].unk_token_id
    settings["suppress_tokens"] = [one for one in settings["suppress_tokens"] if one != unknown]
    path.write_text(json.dumps(settings))
    ours = translate_lines(made)
    theirs, _ = generated(made)
    assert_same(loaded(made), ours, theirs)
    assert any(unknown in row for row in theirs)
    suppressed = translate_lines(made, suppress_unk=True)
    assert not any(SPECIAL_TOKENS[UNK] in found.tokens for found in suppressed)


def translate_lines(model_dir: Path, **flags: Any) -> list[Translation]:
    """Return the translations of `Translator`, configured as by the command line and the Python API."""
    one = loaded(model_dir)
    search = search_settings(one.config.generation, flags)
    return list(NeuralTranslator(one.model, one.text, search).translate(enumerate_lines(LINES)))


def test_settings_are_read_from_config_of_older_directories(model_dir: ModelDir, tmp_path: Path) -> None:
    made = Path(shutil.copytree(model_dir("bart"), tmp_path / "bart"))
    content = json.loads((made / "config.json").read_text())
    older = {"num_beams": 3, "length_penalty": 2.0, "max_length": 12, "forced_bos_token_id": 0}
    model, tokenizer = library(made)
    never = suppressed_tokens(model.config, tokenizer)
    (made / "config.json").write_text(json.dumps(content | older | {"suppress_tokens": never}))
    (made / "generation_config.json").unlink()
    one = loaded(made)
    assert (one.config.generation.beam_size, one.config.generation.length_penalty) == (3, 2.0)
    ours = [found[0] for found in beam_search(one.model, batch(one, LINES).source, one.config.generation)]
    assert_same(one, ours, generated(made)[0])


def test_directory_without_settings_uses_defaults_of_regard(model_dir: ModelDir) -> None:
    search = loaded(model_dir("t5")).config.generation
    assert (search.beam_size, search.max_length_ratio, search.max_length_offset) == (5, 2.0, 10)
    assert search.scheme.hf_compatible and not search.scheme.forced_eos


def test_unsupported_setting_is_logged_once(
    model_dir: ModelDir, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Path(shutil.copytree(model_dir("bart"), tmp_path / "bart"))
    path = made / "generation_config.json"
    own = {"num_beams": 4, "repetition_penalty": 1.2, "num_return_sequences": 1, "guidance_scale": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    with caplog.at_level(logging.WARNING):
        loaded(made)
    warnings = [record.getMessage() for record in caplog.records if "regard ignores" in record.getMessage()]
    assert warnings == [f"{path}: regard ignores repetition_penalty = 1.2"]


def test_mbart_translation_starts_with_the_language_token_as_in_training(tmp_path: Path) -> None:
    """The tokenizer of mBART puts the language last in targets, and training shifts it to the front.

    This differs from mBART-50. With a start symbol before the language, the decoder gets an input that it was
    not trained on, and may not terminate.
    """
    tokens = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    tokens += [(letter, -6.0) for letter in ["▁", *tiny.LETTERS]]
    tokenizer = transformers.MBartTokenizer(vocab=tokens, src_lang="de_DE", tgt_lang="en_XX")
    torch.manual_seed(0)
    config = transformers.MBartConfig(vocab_size=len(tokenizer), **tiny.SIZES, **tiny.SYMBOLS)
    transformers.MBartForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    language = tokenizer.convert_tokens_to_ids("en_XX")
    labels = tokenizer(text_target=tiny.TEXT[2], return_tensors="pt")["input_ids"]
    first = transformers.models.mbart.modeling_mbart.shift_tokens_right(labels, tokenizer.pad_token_id)[0, 0]
    assert loaded(tmp_path).model.start == (language,) == (int(first),)
    # A forced first token takes precedence over the language of the tokenizer ...
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"forced_bos_token_id": 0}))
    assert loaded(tmp_path).model.start == (2, 0)
    # ... and a user-specified language over both.
    suppressed = load_model(tmp_path, "cpu", overrides=["data.target_tokenizer.language=de_DE"])
    assert suppressed.model.start == (tokenizer.convert_tokens_to_ids("de_DE"),)
