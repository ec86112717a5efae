"""Small models, created from configurations of transformers and saved by its own code."""

# pyright: basic

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.config import from_dict
from regard.training.run_config import RunConfig

ModelDir = Callable[[str], Path]
"""A function from the name of a model to its directory."""

TEXT = [
    "ein kleiner Hund läuft im Garten .",
    "die Katze schläft auf dem Sofa .",
    "a small dog runs in the garden .",
    "the cat sleeps on the sofa .",
    "der Mann liest ein Buch .",
    "the man reads a book .",
]

WORDS = sorted({word for line in TEXT for word in line.split()})
LETTERS = sorted({letter for word in WORDS for letter in word})

SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
    "forced_eos_token_id": None, "init_std": 0.5, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip
SYMBOLS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
MULTILINGUAL = {**SIZES, **SYMBOLS, "scale_embedding": True}


def wordpiece_tokenizer(size: int = 120) -> Any:
    """Return a fast WordPiece tokenizer like that of BERT.

    Its vocabulary is fixed, since training with `tokenizers` is not deterministic.
    """
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*names, *LETTERS, *(f"##{letter}" for letter in LETTERS), *(w for w in WORDS if len(w) > 1)]
    made = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens[:size])}, unk_token="[UNK]"))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip


def bpe_tokenizer(size: int = 320, around: bool = True) -> Any:
    """Return a fast BPE tokenizer like that of BART, or, without symbols around a line, of GPT-2."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    names = ["<s>", "<pad>", "</s>", "<unk>"] if around else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=names, initial_alphabet=alphabet)
    made.train_from_iterator(TEXT, trainer)
    if not around:
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=made, bos_token=names[0], eos_token=names[0], unk_token=names[0]
        )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def unigram_tokenizer() -> Any:
    """Return a fast unigram tokenizer like that of T5."""
    names = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    letters = [(letter, -6.0) for letter in ["▁", *LETTERS]]
    words = [(f"▁{word}", -4.0 - i / 100) for i, word in enumerate(WORDS[::2]) if len(word) > 1]
    made = Tokenizer(models.Unigram([*names, *letters, *words], unk_id=2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def marian(directory: Path) -> Any:
    """Save and return a model like those of OPUS-MT, with two SentencePiece models for its tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    tokens: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for side, lines in (("source", TEXT[:2] + TEXT[4:5]), ("target", TEXT[2:4] + TEXT[5:])):
        model = _train_sentencepiece(directory / f"{side}.spm", lines, 60)
        for i in range(3, len(model)):
            tokens.setdefault(model.id_to_piece(i), len(tokens))
    tokens["<pad>"] = len(tokens)
    (directory / "vocab.json").write_text(json.dumps(tokens))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "de", "target_lang": "en"})
    )
    ids = {"pad_token_id": tokens["<pad>"], "eos_token_id": 0, "decoder_start_token_id": tokens["<pad>"]}
    config = transformers.MarianConfig(vocab_size=len(tokens), **SIZES, **ids)
    return _saved(transformers.MarianMTModel(config), directory)


def bart(directory: Path) -> Any:
    """Save and return a model like BART."""
    tokenizer = bpe_tokenizer()
    heads = {"decoder_attention_heads": 4}
    config = transformers.BartConfig(vocab_size=len(tokenizer), **{**SIZES, **SYMBOLS, **heads})
    model = transformers.BartForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = 0
    return _saved(model, directory, tokenizer)


def t5(directory: Path, **options: Any) -> Any:
    """Save and return a model like T5: relative positions, unscaled dot products."""
    tokenizer = unigram_tokenizer()
    config = transformers.T5Config(
        vocab_size=len(tokenizer) + 4, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, initializer_factor=1.0, **options,
    )  # fmt: skip
    return _saved(transformers.T5ForConditionalGeneration(config), directory, tokenizer)


def t5gemma(directory: Path) -> Any:
    """Save and return a model like T5Gemma: capped scores, and query heads that share keys and values."""
    tokenizer = unigram_tokenizer()
    part: dict[str, Any] = {
        "vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3,
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "query_pre_attn_scalar": 8,
        "sliding_window": 32, "initializer_range": 0.5,
    }  # fmt: skip
    decoder = {**part, "cross_attention_hidden_size": 16}
    ids = {name: part[name] for name in ("vocab_size", "pad_token_id", "eos_token_id", "bos_token_id")}
    config = transformers.T5GemmaConfig(encoder=part, decoder=decoder, **ids)
    return _saved(transformers.T5GemmaForConditionalGeneration(config), directory, tokenizer)


def bert(directory: Path, layers: int = 2) -> Any:
    """Save and return an encoder like BERT, with its language modeling head."""
    tokenizer = wordpiece_tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    return _saved(transformers.BertForMaskedLM(config), directory, tokenizer)


def gpt2(directory: Path) -> Any:
    """Save and return a language model like GPT-2."""
    tokenizer = bpe_tokenizer(around=False)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=24, n_layer=2, n_head=2, n_positions=64, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return _saved(transformers.GPT2LMHeadModel(config), directory, tokenizer)


def mbart(directory: Path) -> Any:
    """Save and return a multilingual model like mBART-50, with both languages in its tokenizer files."""
    tokens = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((letter, -6.0) for letter in ["▁", *LETTERS])]
    tokens += [(f"▁{word}", -4.0 - i / 100) for i, word in enumerate(WORDS[::2]) if len(word) > 1]
    tokenizer = transformers.MBart50Tokenizer(vocab=tokens, src_lang="de_DE", tgt_lang="en_XX")
    config = transformers.MBartConfig(vocab_size=len(tokenizer), **MULTILINGUAL)
    return _saved(transformers.MBartForConditionalGeneration(config), directory, tokenizer)


def nllb(directory: Path) -> Any:
    """Save and return a multilingual model like NLLB."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = transformers.NllbTokenizer(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[("▁", letter) for letter in LETTERS],
        src_lang="deu_Latn",
        tgt_lang="eng_Latn",
    )
    config = transformers.M2M100Config(vocab_size=len(tokenizer), **MULTILINGUAL)
    return _saved(transformers.M2M100ForConditionalGeneration(config), directory, tokenizer)


def m2m100(directory: Path) -> Any:
    """Save and return a multilingual model like M2M-100, with language tokens outside its vocabulary file."""
    directory.mkdir(parents=True, exist_ok=True)
    model = _train_sentencepiece(directory / "sentencepiece.bpe.model", TEXT, 80)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(i) for i in range(3, len(model)))]
    (directory / "vocab.json").write_text(json.dumps({name: place for place, name in enumerate(names)}))
    files = (str(directory / "vocab.json"), str(directory / "sentencepiece.bpe.model"))
    tokenizer = transformers.M2M100Tokenizer(*files, src_lang="de", tgt_lang="en")
    rows = max(tokenizer.id_to_lang_token) + 9  # as in the published models, some rows have no token
    config = transformers.M2M100Config(vocab_size=rows, **MULTILINGUAL)
    return _saved(transformers.M2M100ForConditionalGeneration(config), directory, tokenizer)


def run_config(
    texts: tuple[Path, Path],
    model: dict[str, Any],
    tokenizers: dict[str, Any],
    learning_rate: float,
    **more: Any,
) -> RunConfig:
    """Return the config of a small run with a learning rate; `more` are options of its training."""
    text = {"source": str(texts[0]), "target": str(texts[1])}
    data = {"cache_dir": str(texts[0].parent / "prepared"), "train": [text], "valid": text, **tokenizers}
    training = {
        "batch_size": 4,
        "optimizer": {"learning_rate": learning_rate},
        "lr_scheduler": {"kind": "constant"},
        "validation": {"every_steps": 1000},
        **more,
    }
    return from_dict(RunConfig, {"device": "cpu", "data": data, "model": model, "training": training})


WHOLE = {"marian": marian, "bart": bart, "t5": t5, "mbart": mbart, "nllb": nllb, "m2m100": m2m100}
"""The models of the types that the documentation names."""


def _train_sentencepiece(path: Path, lines: list[str], size: int) -> Any:
    """Train a SentencePiece model, write it to `path`, and return it."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(path), vocab_size=size, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    path.with_name(f"{path.name}.vocab").unlink()
    path.with_name(f"{path.name}.model").rename(path)
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def _saved(model: Any, directory: Path, tokenizer: Any = None) -> Any:
    """Save the model with its tokenizer and settings for generation, and return it."""
    model = model.eval()
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)
    if tokenizer is not None and hasattr(tokenizer, "tgt_lang"):
        # Every translation starts with the language token.
        names = getattr(tokenizer, "lang_code_to_token", {})
        language = names.get(tokenizer.tgt_lang, tokenizer.tgt_lang)
        model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids(language)
    with torch.no_grad():
        bias = getattr(model, "final_logits_bias", None)
        if bias is not None:
            bias[0, model.config.eos_token_id] = 2.0  # makes translations end
    model.save_pretrained(directory)
    return model


def xlnet(directory: Path) -> Any:
    """Save and return an encoder like XLNet: relative positions, and special symbols after the sentence."""
    tokenizer = unigram_tokenizer()
    tokenizer.add_special_tokens({"sep_token": "<sep>", "cls_token": "<cls>"})
    after = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("<sep>", "<cls>")]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep> <cls>", special_tokens=after
    )
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}
    config = transformers.XLNetConfig(vocab_size=len(tokenizer), pad_token_id=0, eos_token_id=1, **sizes)
    return _saved(transformers.XLNetLMHeadModel(config), directory, tokenizer)


def pickle_shards(directory: Path, state: dict[str, Any], size: int) -> None:
    """Write weights as pickled shards of `size` tensors, with their index."""
    names = list(state)
    parts = [names[i : i + size] for i in range(0, len(names), size)]
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        file = f"pytorch_model-{number:05d}-of-{len(parts):05d}.bin"
        torch.save({name: state[name] for name in part}, directory / file)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
