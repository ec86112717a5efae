"""Decoder-only models that translate: search, scores and attention equal those of transformers."""

# pyright: basic

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import causal_models
import numpy as np
import tiny
import torch
import transformers
from tiny import ModelDir

import regard
from regard.errors import ConfigError, DataError
from regard.extensions.hf.prompt_tokenizer import PromptTokenizer, PromptTokenizerConfig

LINES = ["ein kleiner Hund läuft im Garten .", "die Katze", "der Mann liest ein Buch auf dem Sofa ."]
TARGETS = ["a small dog runs", "the cat", "the man reads a book ."]
PROMPT = "Translate from German to English: {}"
LONGEST = 14
families = pytest.mark.parametrize("name", causal_models.FAMILIES)


def copied(source: Path, into: Path, **prompt: Any) -> Path:
    """Return a copy of a directory, with other options of its prompt."""
    shutil.copytree(source, into)
    content = {**causal_models.LANGUAGES, **prompt}
    (into / "regard_prompt.json").write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    return into


def library(directory: Path) -> tuple[Any, Any]:
    """Return the model and the tokenizer, loaded by transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    return model.eval(), transformers.AutoTokenizer.from_pretrained(directory)


def prompt_text(tokenizer: Any, line: str) -> str:
    text = PROMPT.format(line)
    if tokenizer.chat_template is None:
        return f"{text}\n"
    message = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


def prompt_encoding(tokenizer: Any, line: str) -> Any:
    """Return the library's tokens of a whole prompt, with their places in its text."""
    plain, text = tokenizer.chat_template is None, prompt_text(tokenizer, line)
    return tokenizer(text, add_special_tokens=plain, return_offsets_mapping=True)


def generated(directory: Path, line: str, **options: Any) -> tuple[list[list[int]], list[float] | None]:
    """Return the continuations of `generate` without their end symbols, and their scores."""
    model, tokenizer = library(directory)
    ids = torch.tensor([prompt_encoding(tokenizer, line)["input_ids"]])
    never = None if tokenizer.pad_token_id is None else [tokenizer.pad_token_id]
    never = None if tokenizer.pad_token_id == tokenizer.eos_token_id else never
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=LONGEST, do_sample=False,
        suppress_tokens=never, pad_token_id=tokenizer.eos_token_id, output_scores=True,
        return_dict_in_generate=True, **options,
    )  # fmt: skip
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    rows = [row[ids.shape[1] :].tolist() for row in found.sequences]
    rows = [row[: next((i for i, one in enumerate(row) if one in ends), len(row))] for row in rows]
    scores = getattr(found, "sequences_scores", None)
    return rows, None if scores is None else scores.tolist()


def own_ids(model: regard.Translator, one: Any) -> list[int]:
    """Return the library's ids of a translation."""
    target = model.text.target
    return [target.tokenizer.library_ids[number] for number in target.vocabulary.to_ids(one.tokens)]


def translate(model: regard.Translator, lines: list[str], beam_size: int, **options: Any) -> Any:
    return model.translate(
        lines, beam_size=beam_size, max_length_ratio=0.0, max_length_offset=LONGEST + 1, **options
    )


@families
def test_batched_search_equals_generate_of_single_prompts(name: str, causal_dir: ModelDir) -> None:
    directory = causal_dir(name)
    model = regard.load(directory, device="cpu")
    for beam, count in ((1, 1), (4, 3)):
        found = translate(model, LINES, beam, num_return=count)
        for line, one in zip(LINES, found, strict=True):
            rows, scores = generated(directory, line, num_beams=beam, num_return_sequences=count)
            ranked = (one, *one.alternatives)
            assert [own_ids(model, translation) for translation in ranked] == rows
            if scores:
                assert np.allclose([translation.score for translation in ranked], scores, atol=1e-5)


@families
def test_scores_equal_the_loss_of_the_library(name: str, causal_dir: ModelDir) -> None:
    model, (own, tokenizer) = regard.load(causal_dir(name), device="cpu"), library(causal_dir(name))
    for line, target, one in zip(LINES, TARGETS, model.score(LINES, TARGETS), strict=True):
        prompt = prompt_encoding(tokenizer, line)["input_ids"]
        reference = [*own_ids(model, one), tokenizer.eos_token_id]
        assert tokenizer.decode(reference[:-1]).strip() == target
        labels = torch.tensor([[*[-100] * len(prompt), *reference]])
        with torch.no_grad():
            loss = own(input_ids=torch.tensor([[*prompt, *reference]]), labels=labels).loss
        assert one.log_probability / len(reference) == pytest.approx(-float(loss), abs=1e-5)


@families
def test_attention_equals_that_of_the_library_at_the_source(name: str, causal_dir: ModelDir) -> None:
    model, (own, tokenizer) = regard.load(causal_dir(name), device="cpu"), library(causal_dir(name))
    for line, found in zip(LINES, translate(model, LINES, 2), strict=True):
        encoding = prompt_encoding(tokenizer, line)
        prompt, start = encoding["input_ids"], prompt_text(tokenizer, line).index(line)
        end = start + len(line)
        # The tokens of the library that overlap the source sentence.
        places = [
            i for i, (first, last) in enumerate(encoding["offset_mapping"]) if first < end and last > start
        ]
        ids = torch.tensor([[*prompt, *own_ids(model, found)]])
        with torch.no_grad():
            layers = own(input_ids=ids, output_attentions=True).attentions
        assert len(layers) == len(found.attention)
        assert found.source_tokens[-2:] == ("<template>", "<translation>")
        for theirs, ours in zip(layers, found.attention, strict=True):
            rows = theirs[0, :, len(prompt) - 1 :].transpose(0, 1).numpy()  # (T, H, K)
            size = min(len(places), ours.shape[2] - 2)
            words = ours[:, :, :-2]
            # Spaces before the sentence may be tokens of their own, which belong to the sentence.
            assert words.shape[2] - len(places) in (0, 1)
            assert np.allclose(words[:, :, -size:], rows[:, :, places[-size:]], atol=1e-5)
            assert np.allclose(ours[:, :, -1], rows[:, :, len(prompt) :].sum(axis=2), atol=1e-5)
            assert np.allclose(ours.sum(axis=2), 1, atol=1e-5)


@families
def test_gradients_equal_those_of_the_embeddings_in_the_library(name: str, causal_dir: ModelDir) -> None:
    model, (own, tokenizer) = regard.load(causal_dir(name), device="cpu"), library(causal_dir(name))
    forced = list(model.backend.with_search({"map": "gradient"}).score(zip(LINES, TARGETS, strict=True)))
    for line, target, found in zip(LINES, TARGETS, forced, strict=True):
        assert found is not None and found.contributions is not None
        prompt, ids = prompt_encoding(tokenizer, line)["input_ids"], model.text.target.encode(target)
        reference = model.backend.model.vocabulary.token_ids[torch.tensor(ids)].tolist()
        embedded = own.get_input_embeddings()(torch.tensor([[*prompt, *reference]])).detach()
        scale = torch.ones(1, embedded.shape[1], 1, requires_grad=True)
        logits = own(inputs_embeds=embedded * scale).logits[0].log_softmax(dim=-1)
        # The source and its sinks; after them, the template ends the prompt.
        size = found.contributions.shape[1] - 2
        start = len(model.backend.model.layout.before)
        for t, token in enumerate(reference):
            (gradient,) = torch.autograd.grad(logits[len(prompt) - 1 + t, token], scale, retain_graph=True)
            expected = gradient[0, start : start + size, 0].numpy()
            assert np.allclose(found.contributions[t, :size], expected, atol=1e-4)
        assert not found.contributions[:, size:].any()
        # BLOOM normalizes its embeddings, so that their scale has no effect.
        assert name == "bloom" or np.abs(found.contributions).max() > 1e-3


@families
def test_translations_and_scores_do_not_depend_on_the_batch(name: str, causal_dir: ModelDir) -> None:
    model = regard.load(causal_dir(name), device="cpu")
    together, alone = (translate(model, LINES, 3, batch_size=size) for size in (3, 1))
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert np.allclose(one.attention[0], other.attention[0], atol=1e-5)
    scored = model.score(LINES, list(together))
    assert np.allclose(
        [one.log_probability for one in together], [one.log_probability for one in scored], atol=1e-4
    )


def test_several_end_symbols_end_a_translation_as_in_generate(causal_dir: ModelDir, tmp_path: Path) -> None:
    directory = copied(causal_dir("gpt2"), tmp_path / "ends")
    first = generated(directory, LINES[0])[0][0]
    path = directory / "generation_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "eos_token_id": [0, first[2]]}))
    model = regard.load(directory, device="cpu")
    found = translate(model, LINES, 1)
    assert [own_ids(model, one) for one in found] == [generated(directory, line)[0][0] for line in LINES]
    assert own_ids(model, found[0]) == first[: first.index(first[2])]


def test_line_break_ends_a_translation_on_request(causal_dir: ModelDir, tmp_path: Path) -> None:
    model = regard.load(copied(causal_dir("llama"), tmp_path / "m", stop_at_newline=True), device="cpu")
    tokenizer = library(causal_dir("llama"))[1]
    assert tokenizer.convert_tokens_to_ids("<0x0A>") in model.backend.model.vocabulary.end_ids
    found = translate(model, LINES, 1, sampling=regard.Sampling(seed=3), num_return=20)
    assert not any("<0x0A>" in one.tokens for line in found for one in (line, *line.alternatives))


def test_prompt_tokenizer_adds_no_language_code_of_a_multilingual_tokenizer(tmp_path: Path) -> None:
    tiny.nllb(tmp_path)
    config = PromptTokenizerConfig(path=str(tmp_path), template="{source} =")
    sides = [PromptTokenizer.create(config, [], side) for side in ("source", "target")]
    assert [side.language_id for side in sides] == [None, None]


def test_prompt_of_the_default_template_is_the_text_that_the_library_tokenizes(causal_dir: ModelDir) -> None:
    for name in ("gpt2", "llama", "opt", "qwen2"):
        tokenizer = library(causal_dir(name))[1]
        own = regard.load(causal_dir(name), device="cpu").text.source.tokenizer
        for line in LINES:
            numbers = {token: number for number, token in own._names.items()}
            source = [numbers[token] for token in own.pretokenize(line)]
            assert [*own.prefix_ids, *source, *own.suffix_ids] == prompt_encoding(tokenizer, line)[
                "input_ids"
            ]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({"template": "Translate this.\n"}, r"\{source\} exactly once"),
        ({"template": "{text}: {source}"}, r"unknown field \{text\}"),
        ({"target_language": None}, r"needs target_language: write it to regard_prompt.json"),
        ({"chat": True}, "chat template of the tokenizer cannot be used"),
        ({"wrong": 1}, "regard_prompt.json: unknown key"),
    ],
)
def test_wrong_prompt_is_refused_with_the_remedy(
    prompt: dict[str, Any], message: str, causal_dir: ModelDir, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        regard.load(copied(causal_dir("gpt2"), tmp_path / "m", **prompt), device="cpu")


def test_options_of_the_prompt_override_those_of_the_directory(causal_dir: ModelDir) -> None:
    settings = ["data.source_tokenizer.template=To {target_language}: {source} =>"]
    text = regard.load(causal_dir("gpt2"), device="cpu", overrides=settings).text
    tokenizer = library(causal_dir("gpt2"))[1]
    for side in (text.source.tokenizer, text.target.tokenizer):
        assert (
            tokenizer.decode(side.prefix_ids) == "To English:" and tokenizer.decode(side.suffix_ids) == " =>"
        )


def test_sentence_longer_than_the_context_is_rejected_by_line(causal_dir: ModelDir, caplog: Any) -> None:
    model = regard.load(causal_dir("gpt2"), device="cpu")
    found = model.translate([LINES[1], "Hund " * 60], beam_size=1)
    assert found[0].error is None and "the maximum is" in found[1].error
    with pytest.raises(DataError, match="tokens; the maximum is"):
        model.translate("Hund " * 60)
    # The context is 96 tokens: both sides fit into it, but not together.
    scored = model.score([LINES[1], LINES[0]], ["the cat", "the cat " * 21])
    assert scored[0].error is None and "together; the maximum is" in scored[1].error
    assert "line 2" in caplog.text


def test_translation_ends_at_the_last_position_of_the_context(causal_dir: ModelDir) -> None:
    model = regard.load(causal_dir("gpt2"), device="cpu")
    context, tokenizer = 96, model.text.source.tokenizer
    found = model.translate(LINES[0], beam_size=1, max_length_ratio=0.0, max_length_offset=500, min_length=67)
    used = len(tokenizer.prefix_ids) + len(tokenizer.suffix_ids) + len(found.source_tokens) - 2
    assert used + len(found.tokens) == context
