"""Hugging Face models in regard: the same translations, probabilities and attention as in transformers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
import transformers
from tiny import ModelDir

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch
from regard.data.fertility import Budget, ConstantFertilityConfig
from regard.errors import ConfigError, UsageError
from regard.extensions.hf.seq2seq import HfConfig, HfSeq2Seq
from regard.extensions.hf.systems import HfSystem
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.generation.forced import force_decode
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.runs.loading import LoadedModel, load_model
from regard.text.vocabulary import BOS, EOS, PAD, UNK

SOURCES = ["ein kleiner Hund läuft im Garten .", "die Katze", "der Mann liest ein Buch auf dem Sofa ."]
TARGETS = ["a small dog runs in the garden .", "the cat", "the man reads"]

whole = pytest.mark.parametrize("name", [*tiny.WHOLE, "t5gemma"])


def loaded(model_dir: Path) -> LoadedModel:
    return load_model(model_dir, "cpu")


def library(model_dir: Path, attention: str = "eager") -> tuple[Any, Any]:
    """Return the model and the tokenizer, loaded by transformers."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(model_dir, attn_implementation=attention)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(model_dir)


def batch(one: LoadedModel, sources: list[str] = SOURCES, targets: list[str] | None = None) -> Batch:
    """Return a batch of the sources, and of the targets, if given."""
    target_ids = None if targets is None else [[*one.text.target.encode(line), EOS] for line in targets]
    return one.text.batch([one.text.source.encode(line) for line in sources], target_ids, range(len(sources)))


@whole
def test_log_likelihood_equals_loss_of_transformers(name: str, model_dir: ModelDir) -> None:
    one = loaded(model_dir(name))
    found = force_decode(one.model, batch(one, targets=TARGETS))
    model, tokenizer = library(model_dir(name))
    for source, target, own in zip(SOURCES, TARGETS, found, strict=True):
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        forced = model.generation_config.forced_bos_token_id is not None
        made = model(**tokenizer(source, return_tensors="pt"), labels=labels)
        logs = torch.log_softmax(made.logits, -1).gather(-1, labels.unsqueeze(-1))[0, int(forced) :, 0]
        assert own.log_probability == pytest.approx(logs.sum().item(), abs=1e-4)
        assert list(own.token_log_probs) == pytest.approx(logs.tolist(), abs=1e-4)
        if not forced:
            assert own.log_probability == pytest.approx(-made.loss.item() * labels.shape[1], abs=1e-4)


@whole
def test_attention_equals_transformers(name: str, model_dir: ModelDir) -> None:
    one = loaded(model_dir(name))
    data = batch(one, SOURCES[:1], TARGETS[:1])
    outcome = one.model(data, output_attentions="all")
    model, tokenizer = library(model_dir(name))
    inputs = tokenizer(SOURCES[:1], return_tensors="pt")
    labels = tokenizer(text_target=TARGETS[:1], return_tensors="pt")["input_ids"]
    made = model(**inputs, labels=labels, output_attentions=True)
    layout, skipped = one.model.layout, len(one.model.start) - 1
    order = layout.from_encoder_order(data.source)[0]
    for own, theirs in zip(outcome.cross_attentions, made.cross_attentions, strict=True):
        assert torch.allclose(own[0], theirs[0, :, skipped:][..., order].transpose(0, 1), atol=1e-5)
    for own, theirs in zip(outcome.encoder_attentions, made.encoder_attentions, strict=True):
        assert torch.allclose(own[0], theirs[0][:, order][..., order], atol=1e-5)
    for own, theirs in zip(outcome.decoder_attentions, made.decoder_attentions, strict=True):
        assert torch.allclose(own[0], theirs[0, :, skipped:, skipped:], atol=1e-5)
    columns = data.source.tokens.shape[1]
    assert (
        len(one.text.sink_tokens) == layout.num_special and outcome.cross_attentions[0].shape[-1] == columns
    )


@whole
def test_steps_of_selected_rows_equal_teacher_forcing(name: str, model_dir: ModelDir) -> None:
    one = loaded(model_dir(name))
    data = batch(one, targets=TARGETS)
    order = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        forced = one.model(data)
        memories, state = one.model.begin(data.source)
        memories = tuple(memory.select(order) for memory in memories)
        state, tokens = state.select(order), torch.full((4,), BOS)
        assert data.target is not None
        for t in range(2):
            prediction = one.model.step(tokens, memories, state)
            tokens = data.target.tokens[order, t]
            picked = prediction.log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
            assert torch.allclose(picked, forced.log_likelihood[order, t], atol=1e-4)
            for reading, weights in zip(prediction.attention_steps, forced.cross_attentions, strict=True):
                assert torch.allclose(reading.weights, weights[order, t], atol=1e-5)
            state = one.model.update(prediction, torch.arange(4), tokens)


def rebuilt(one: LoadedModel, model_dir: Path, attention: Any, **more: Any) -> HfSeq2Seq:
    """Return the model with another attention mechanism."""
    config = HfConfig(path=str(model_dir), attention=attention, **more)
    return HfSystem.build(config, one.text).eval()


@whole
def test_sparsemax_instead_of_softmax_gives_exact_zeros_and_trains(name: str, model_dir: ModelDir) -> None:
    one = loaded(model_dir(name))
    model = rebuilt(one, model_dir(name), SoftAttentionConfig(normalizer="sparsemax"), attention_layers=(1,))
    data = batch(one, targets=TARGETS)
    weights = model(data).cross_attentions
    longest = int(data.source.lengths.argmax())
    assert [bool((layer[longest, 0] == 0).any()) for layer in weights] == [False, True]
    assert torch.allclose(weights[1].sum(-1)[data.target.mask], torch.ones(()), atol=1e-5)
    model.train()
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-2)
    losses = []
    for _ in range(12):
        loss = -model(data, output_attentions="nothing").log_likelihood.sum()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trained)
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


def test_constrained_attention_respects_fertilities(model_dir: ModelDir) -> None:
    one = loaded(model_dir("bart"))
    budget = Budget.constant(ConstantFertilityConfig(value=1.0), len(one.text.source.vocabulary))
    one = replace(one, text=replace(one.text, budget=budget))
    config = ConstrainedAttentionConfig(normalizer="sparsemax")
    model = rebuilt(one, model_dir("bart"), config).train()
    data = batch(one, targets=TARGETS)
    real = model(data).cross_attentions[-1].masked_fill(~data.target.mask[:, :, None, None], 0)
    words = data.source.word_mask[:, None].expand(-1, 4, -1)
    assert (real.sum(1)[words] <= 1 + 1e-4).all()
    model.eval()
    found = beam_search(model, data.source, GenerationConfig(beam_size=2), upper=data.upper_bounds)
    received = torch.from_numpy(found[0][0].attention[-1]).sum(0)
    assert (received[:, : -len(one.text.sink_tokens)] <= 1 + 1e-3).all()


def test_source_prefix_is_encoded_but_not_counted_as_words(model_dir: ModelDir) -> None:
    one = load_model(model_dir("t5"), "cpu", overrides=['data.source_tokenizer.prefix="der Mann"'])
    (found,) = force_decode(one.model, batch(one, SOURCES[:1], TARGETS[:1]))
    model, tokenizer = library(model_dir("t5"))
    labels = tokenizer(text_target=TARGETS[0], return_tensors="pt")["input_ids"]
    made = model(**tokenizer(f"der Mann {SOURCES[0]}", return_tensors="pt"), labels=labels)
    assert found.log_probability == pytest.approx(-made.loss.item() * labels.shape[1], abs=1e-4)
    tokens = one.text.source.tokenize(SOURCES[0])
    assert one.text.source.word_ids(tokens)[-1] + 1 == len(SOURCES[0].split())


@whole
def test_decoded_text_equals_transformers(name: str, model_dir: ModelDir) -> None:
    one = loaded(model_dir(name))
    _, tokenizer = library(model_dir(name))
    side = one.text.target
    for line in TARGETS:
        ids = tokenizer(text_target=line)["input_ids"]
        # M2M-100 in transformers prints the language token unless its files list it as a special token.
        special = {*tokenizer.all_special_ids, *getattr(tokenizer, "id_to_lang_token", {})}
        words = [i for i in ids if i not in special or i == tokenizer.unk_token_id]
        assert side.tokenizer.decode(side.tokenize(line)) == tokenizer.decode(words).strip()
        assert [side.tokenizer.library_ids[i] for i in side.encode(line)] == words


@whole
def test_special_symbols_in_text_are_text_or_unknown(name: str, model_dir: ModelDir) -> None:
    text = loaded(model_dir(name)).text
    for side in (text.source, text.target):
        hf = side.tokenizer._hf
        for symbol in {*hf.all_special_tokens, *getattr(hf, "lang_code_to_token", {}).values()}:
            ids = side.encode(f"die {symbol} Katze")
            assert not {PAD, BOS, EOS}.intersection(ids)
            assert symbol in side.decode(ids) or UNK in ids


@pytest.mark.parametrize(("name", "german"), [("mbart", "de_DE"), ("nllb", "deu_Latn"), ("m2m100", "de")])
def test_languages_of_multilingual_model_can_be_set(
    name: str, german: str, model_dir: ModelDir, tmp_path: Path
) -> None:
    own = loaded(model_dir(name))
    into = [f"data.target_tokenizer.language={german}"]
    other = load_model(model_dir(name), "cpu", overrides=into)
    assert own.text.source.tokenizer.special_tokens == other.text.source.tokenizer.special_tokens
    assert german in own.text.source.tokenizer.special_tokens[0]
    assert own.model.start[:-1] == other.model.start[:-1] == (2,)
    assert german in library(model_dir(name))[1].convert_ids_to_tokens(other.model.start[-1])
    with pytest.raises(UsageError, match="does not support the language 'xx'"):
        load_model(model_dir(name), "cpu", overrides=["data.source_tokenizer.language=xx"])
    # Neither the files of the tokenizer nor those of the model specify the target language.
    copy = Path(shutil.copytree(model_dir(name), tmp_path / name))
    for file in ("tokenizer_config.json", "generation_config.json"):
        known = json.loads((copy / file).read_text())
        kept = {key: value for key, value in known.items() if key not in ("tgt_lang", "forced_bos_token_id")}
        (copy / file).write_text(json.dumps(kept))
    with pytest.raises(ConfigError, match="target language is not specified"):
        loaded(copy)
    load_model(copy, "cpu", overrides=into)


def test_required_terms_are_in_the_translation(model_dir: ModelDir) -> None:
    one = loaded(model_dir("bart"))
    translator = NeuralTranslator(one.model, one.text, one.config.generation)
    found = translator.translate(enumerate_lines(SOURCES, terms=["dog"] * len(SOURCES)))
    assert all(not line.missing_terms and "dog" in line.text for line in found)
    # Within a line, byte-level BPE marks the space before a word.
    tokenizer = one.text.target.tokenizer
    inside = tokenizer.encode_inside("dog")
    assert inside is not None and tokenizer.decode(["a", *inside]) == "a dog"
    assert tokenizer.encode("a dog") == [*tokenizer.encode("a"), *inside]


def test_model_without_the_attention_interface_is_refused_with_the_reason(
    model_dir: ModelDir, tmp_path: Path
) -> None:
    tiny.bpe_tokenizer().save_pretrained(tmp_path)
    config = transformers.MvpConfig(vocab_size=320, **tiny.SIZES, **tiny.SYMBOLS)
    transformers.MvpForConditionalGeneration(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be used for step-by-step .*: .*attention interface"):
        loaded(tmp_path)
