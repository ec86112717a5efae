"""Measure OpenNMT-py 3.5: its own model builder, trainer, checkpoint and translator, on the shared batches.

Run by the interpreter of the toolkit. Only two changes are made for a PyTorch newer than the toolkit
supports:
- The package imports all text transforms; two of them require spaCy and fastText, which are replaced by
  empty modules. No transform is used here, so their absence only reduces the memory of the toolkit.
- `torch.load` rejects pickled options since PyTorch 2.6, so `argparse.Namespace` is declared safe.

Its Transformer supports only pre-norm. Its validation loss has label smoothing like the training loss;
smoothing is turned off before validation so that perplexities are comparable.
"""

import argparse
import logging
import sys
import types
import warnings
from importlib.metadata import version
from typing import Any

import torch
from measure import CONV, TRANSFORMER, Clocked, arguments, report, write_translations
from multi30k import BOS, EOS, SPECIALS, Batch, Multi30k

__all__: list[str] = []

for absent in ("fasttext", "spacy"):
    sys.modules[absent] = types.ModuleType(absent)
warnings.filterwarnings("ignore", category=FutureWarning)  # deprecated names in torch.cuda.amp

import onmt.opts  # noqa: E402
import pyonmttok  # noqa: E402
from onmt.inputters.text_utils import tensorify  # noqa: E402
from onmt.model_builder import build_model  # noqa: E402
from onmt.models import build_model_saver  # noqa: E402
from onmt.trainer import build_trainer  # noqa: E402
from onmt.translate import TranslationBuilder  # noqa: E402
from onmt.translate.translator import build_translator  # noqa: E402
from onmt.utils.optimizers import Optimizer  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

torch.serialization.add_safe_globals([argparse.Namespace])


def options(declare: Any, values: dict[str, Any]) -> argparse.Namespace:
    """Return the options of the toolkit: its defaults except for `values`, in which True sets a flag."""
    parser = ArgumentParser()
    declare(parser)
    words: list[str] = []
    for name, value in values.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return parser.parse_known_args(words)[0]


def model_options(kind: str) -> dict[str, Any]:
    """Return the options of the model with this architecture, and of its training."""
    if kind == "lstm":
        return {
            "encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": "LSTM", "layers": 2,
            "hidden_size": 500, "word_vec_size": 500, "global_attention": "general", "input_feed": 1,
        }  # fmt: skip
    if kind == "conv":
        return {
            "encoder_type": "cnn", "decoder_type": "cnn", "layers": CONV.layers, "hidden_size": CONV.width,
            "word_vec_size": CONV.width, "cnn_kernel_width": CONV.kernel, "position_encoding": True,
        }  # fmt: skip
    sizes = TRANSFORMER
    return {
        "encoder_type": "transformer", "decoder_type": "transformer", "layers": sizes.layers,
        "hidden_size": sizes.width, "word_vec_size": sizes.width, "heads": sizes.heads,
        "transformer_ff": sizes.feed_forward, "position_encoding": True, "add_qkvbias": True,
        "add_ffnbias": True, "norm_eps": 1e-5, "attention_dropout": 0.0,
        "param_init": 0.0, "param_init_glorot": True,
        "label_smoothing": sizes.label_smoothing, "adam_beta2": sizes.beta2,
    }  # fmt: skip


def vocabularies(data: Multi30k) -> dict[str, Any]:
    """Return the vocabularies of the toolkit, with the ids of the shared file."""
    sides = {}
    for side, words in (("src", data.source_words), ("tgt", data.target_words)):
        sides[side] = pyonmttok.build_vocab_from_tokens(words)
        sides[side].default_id = sides[side][SPECIALS[1]]
        if sides[side].ids_to_tokens != words:
            raise RuntimeError("the vocabulary of OpenNMT-py does not have the word order of the shared file")
    return {**sides, "data_task": "seq2seq", "decoder_start_token": SPECIALS[BOS]}


def tensors(batch: Batch, vocabs: dict[str, Any], with_target: bool = True) -> tuple[dict[str, Any], int]:
    """Return a batch as collated by the toolkit, and its bucket number."""
    examples = []
    for index, source, target in zip(batch.indices, batch.source, batch.target, strict=True):
        reference = {"tgt_ids": [BOS, *target, EOS]} if with_target else None
        examples.append(
            ({"src": {"src_ids": source}, "tgt": reference, "cid": "", "cid_line_number": index}, index)
        )
    return tensorify(vocabs, examples, torch.device("cpu")), 0


def train(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    vocabs = vocabularies(data)
    choice = {
        "data": "{}", "src_vocab": "unused", "save_model": args.model / "model" if args.model else "unused",
        **model_options(args.kind), "dropout": args.dropout,
        "optim": "adam", "learning_rate": args.rate, "max_grad_norm": args.clip, "normalization": "tokens",
        "batch_size": 64, "seed": args.seed,
    }  # fmt: skip
    opt = options(onmt.opts.train_opts, choice)
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    opt.data = {}

    model = build_model(opt, opt, vocabs, None, -1)
    optim = Optimizer.from_opt(model, opt)
    saver = build_model_saver(opt, opt, model, vocabs, optim, -1) if args.model else None
    trainer = build_trainer(opt, -1, model, vocabs, optim, model_saver=saver)
    raw_batches = list(data.train_batches(args.warmup + args.updates))
    batches = Clocked([tensors(batch, vocabs) for batch in raw_batches], args.warmup)
    trainer.train(batches, train_steps=0, save_checkpoint_steps=0, valid_steps=2**60)

    trainer.valid_loss.criterion.label_smoothing = 0.0
    stats = trainer.validate([tensors(batch, vocabs) for batch in data.sorted_batches("valid", 64)])
    if args.model:
        newest = max(args.model.glob("model_step_*.pt"), key=lambda path: path.stat().st_mtime)
        newest.rename(args.model / "model.pt")
    tokens = sum(batch.target_tokens for batch in raw_batches[args.warmup :])
    report(
        system="opennmt", mode="train", version=version("OpenNMT-py"), torch=torch.__version__,
        tokens_per_s=tokens / batches.seconds, peak_gib=batches.peak, valid_ppl=stats.ppl(),
        seconds=batches.seconds, cpus=batches.cpus, updates=args.updates, tokens=tokens,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )  # fmt: skip


def decode(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    choice = {
        "model": args.model / "model.pt", "src": "unused", "beam_size": args.beam, "batch_size": args.batch,
        "length_penalty": "none", "max_length_ratio": 1.5, "output": "/dev/null",
    }  # fmt: skip
    opt = options(onmt.opts.translate_opts, choice)
    ArgumentParser.validate_translate_opts(opt)
    translator = build_translator(opt, report_score=False)
    builder = TranslationBuilder(translator.vocabs, n_best=1)
    raw_batches = list(data.sorted_batches("test", args.batch, args.sentences))
    batches = Clocked([tensors(batch, translator.vocabs, with_target=False)[0] for batch in raw_batches])
    # Warm-up.
    translator.translate_batch(tensors(raw_batches[0], translator.vocabs, with_target=False)[0], False)

    translations = {}
    for batch in batches:
        for found in builder.from_batch(translator.translate_batch(batch, False)):
            translations[int(found.ind_in_bucket)] = found.pred_sents[0]
    if args.output:
        write_translations(args.output, translations)
    report(
        system="opennmt", mode="decode", version=version("OpenNMT-py"), torch=torch.__version__,
        sentences_per_s=len(translations) / batches.seconds, peak_gib=batches.peak, seconds=batches.seconds,
        cpus=batches.cpus, sentences=len(translations), words=sum(map(len, translations.values())),
    )  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.INFO)
    chosen = arguments(__doc__)
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    {"train": train, "decode": decode}[chosen.mode](chosen)
