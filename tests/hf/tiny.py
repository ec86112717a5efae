"""Small models of the library, made from configurations and saved by its own code."""

# pyright: basic

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

Folder = Callable[[str], Path]
"""The folder of a model by its name."""

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


def word_pieces(size: int = 120) -> Any:
    """A fast tokenizer as BERT's; not learned, for the library's learning is not the same every time."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*names, *LETTERS, *(f"##{letter}" for letter in LETTERS), *(w for w in WORDS if len(w) > 1)]
    made = Tokenizer(models.WordPiece({token: i for i, token in enumerate(pieces[:size])}, unk_token="[UNK]"))
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


def byte_pairs(size: int = 320, around: bool = True) -> Any:
    """A fast tokenizer as BART's, or without symbols around a line as GPT-2's."""
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


def unigrams() -> Any:
    """A fast tokenizer as T5's."""
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


def marian(folder: Path) -> Any:
    """A model as those of OPUS-MT, with a tokenizer of two SentencePiece models."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for side, lines in (("source", TEXT[:2] + TEXT[4:5]), ("target", TEXT[2:4] + TEXT[5:])):
        model = _sentence_pieces(folder / f"{side}.spm", lines, 60)
        for i in range(3, len(model)):
            pieces.setdefault(model.id_to_piece(i), len(pieces))
    pieces["<pad>"] = len(pieces)
    (folder / "vocab.json").write_text(json.dumps(pieces))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "source_lang": "de", "target_lang": "en"})
    )
    config = transformers.MarianConfig(
        vocab_size=len(pieces), d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64,
        pad_token_id=pieces["<pad>"], eos_token_id=0, decoder_start_token_id=pieces["<pad>"],
        forced_eos_token_id=None, init_std=0.5,
    )  # fmt: skip
    return _saved(transformers.MarianMTModel(config), folder)


def bart(folder: Path) -> Any:
    """A model as BART."""
    tokenizer = byte_pairs()
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64,
        bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None,
        init_std=0.5,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    model = transformers.BartForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = 0
    return _saved(model, folder)


def t5(folder: Path) -> Any:
    """A model as T5: relative positions, unscaled products."""
    tokenizer = unigrams()
    config = transformers.T5Config(
        vocab_size=len(tokenizer) + 4, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, initializer_factor=1.0,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return _saved(transformers.T5ForConditionalGeneration(config), folder)


def mt5(folder: Path) -> Any:
    """A model as mT5: gated feed-forward networks, an output layer of its own."""
    tokenizer = unigrams()
    config = transformers.MT5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, initializer_factor=1.0,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return _saved(transformers.MT5ForConditionalGeneration(config), folder)


def bert(folder: Path, layers: int = 2) -> Any:
    """An encoder as BERT, saved with its language model's head."""
    tokenizer = word_pieces()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return _saved(transformers.BertForMaskedLM(config), folder)


def gpt2(folder: Path) -> Any:
    """A language model as GPT-2."""
    tokenizer = byte_pairs(around=False)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=24,
        n_layer=2,
        n_head=2,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=0,
    )
    tokenizer.save_pretrained(folder)
    return _saved(transformers.GPT2LMHeadModel(config), folder)


def mbart(folder: Path) -> Any:
    """A model of many languages as mBART-50, told two of them by the files of its tokenizer."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((letter, -6.0) for letter in ["▁", *LETTERS])]
    pieces += [(f"▁{word}", -4.0 - i / 100) for i, word in enumerate(WORDS[::2]) if len(word) > 1]
    tokenizer = transformers.MBart50Tokenizer(vocab=pieces, src_lang="de_DE", tgt_lang="en_XX")
    config = transformers.MBartConfig(vocab_size=len(tokenizer), **MULTILINGUAL)
    tokenizer.save_pretrained(folder)
    return _saved(transformers.MBartForConditionalGeneration(config), folder, tokenizer)


def nllb(folder: Path) -> Any:
    """A model of many languages as NLLB."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = transformers.NllbTokenizer(
        vocab={piece: place for place, piece in enumerate(pieces)},
        merges=[("▁", letter) for letter in LETTERS],
        src_lang="deu_Latn",
        tgt_lang="eng_Latn",
    )
    tokenizer.save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=len(tokenizer), **MULTILINGUAL)
    return _saved(transformers.M2M100ForConditionalGeneration(config), folder, tokenizer)


def m2m100(folder: Path) -> Any:
    """A model of many languages as M2M-100, whose tokenizer keeps these apart from its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    model = _sentence_pieces(folder / "sentencepiece.bpe.model", TEXT, 80)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(i) for i in range(3, len(model)))]
    (folder / "vocab.json").write_text(json.dumps({name: place for place, name in enumerate(names)}))
    files = (str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer = transformers.M2M100Tokenizer(*files, src_lang="de", tgt_lang="en")
    tokenizer.save_pretrained(folder)
    rows = max(tokenizer.id_to_lang_token) + 9  # as in those published, some have no token
    config = transformers.M2M100Config(vocab_size=rows, **MULTILINGUAL)
    return _saved(transformers.M2M100ForConditionalGeneration(config), folder, tokenizer)


MULTILINGUAL: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": None, "init_std": 0.5, "scale_embedding": True,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip

WHOLE = {"marian": marian, "bart": bart, "t5": t5, "mbart": mbart, "nllb": nllb, "m2m100": m2m100}


def _sentence_pieces(path: Path, lines: list[str], size: int) -> Any:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(path), vocab_size=size, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    path.with_name(f"{path.name}.vocab").unlink()
    path.with_name(f"{path.name}.model").rename(path)
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def _saved(model: Any, folder: Path, tokenizer: Any = None) -> Any:
    model = model.eval()
    if tokenizer is not None:  # the language that every translation starts with
        names = getattr(tokenizer, "lang_code_to_token", {})
        language = names.get(tokenizer.tgt_lang, tokenizer.tgt_lang)
        model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids(language)
    with torch.no_grad():
        bias = getattr(model, "final_logits_bias", None)
        if bias is not None:
            bias[0, model.config.eos_token_id] = 2.0  # translations end
    model.save_pretrained(folder)
    return model
