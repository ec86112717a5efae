"""Measure JoeyNMT 2.3: its own model builder, training manager, checkpoint and search, on the shared batches.

Run by the interpreter of the toolkit. Its data loader reads only text files, so the trainer gets an object
that yields its own `Batch` objects, created from the shared file. `TrainManager` makes the steps, clips
gradients and saves; `search` translates. Differences at these settings: its recurrent model initializes all
decoder layers with the last state of the encoder, while the other systems use the state of each layer, and
it applies dropout to the fed attention vector together with the embedding; neither model has a bias in the
output layer. It has one dropout option for Transformer layers and attention weights; the latter is turned
off in the built model. No change is needed for PyTorch 2.13.
"""

import argparse
import logging
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch as JoeyBatch
from joeynmt.config import parse_global_args
from joeynmt.helpers import load_checkpoint
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention
from joeynmt.vocabulary import Vocabulary
from measure import TRANSFORMER, Clocked, arguments, report, write_translations
from multi30k import BOS, EOS, PAD, SPECIALS, UNK, Batch, Multi30k

__all__: list[str] = []

CPU = torch.device("cpu")
JOEY_UNK, JOEY_PAD = 0, 1


def padded(sentences: list[list[int]]) -> torch.Tensor:
    """Return padded ids of the toolkit, whose vocabulary starts with the unknown word, then padding."""
    width = max(map(len, sentences))
    rows = [sentence + [PAD] * (width - len(sentence)) for sentence in sentences]
    ids = torch.tensor(rows)
    return torch.where(ids <= UNK, 1 - ids, ids)


def tensors(batch: Batch, with_target: bool = True) -> JoeyBatch:
    """Return a batch as collated by the toolkit."""
    target = padded([[BOS, *sentence, EOS] for sentence in batch.target]) if with_target else None
    return JoeyBatch(
        src=padded(batch.source),
        src_length=torch.tensor([len(sentence) for sentence in batch.source]),
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.tensor(batch.indices),
        device=CPU,
        pad_index=JOEY_PAD,
        eos_index=EOS,
        is_train=with_target,
    )


class Neutral:
    """The data set interface of `TrainManager`: batches in a fixed order, without sampling."""

    def __init__(self, batches: Clocked[JoeyBatch]) -> None:
        self.batches = batches
        self.seed = 0
        self.batch_sampler = self

    def make_iter(self, **_: Any) -> "Neutral":
        return self

    def __iter__(self) -> Any:
        return iter(self.batches)

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def get_state(self) -> torch.Tensor:
        return torch.zeros(1)


def recurrent(dropout: float) -> dict[str, Any]:
    """Return the options of the recurrent model of the comparison."""
    embeddings = {"embedding_dim": 500, "scale": False}
    return {
        "initializer": "uniform", "init_weight": 0.1, "embed_initializer": "uniform",
        "embed_init_weight": 0.1, "bias_initializer": "uniform", "bias_init_weight": 0.1,
        "lstm_forget_gate": 0.0,
        "encoder": {
            "type": "recurrent", "rnn_type": "lstm", "embeddings": embeddings, "hidden_size": 250,
            "bidirectional": True, "num_layers": 2, "dropout": dropout,
        },
        "decoder": {
            "type": "recurrent", "rnn_type": "lstm", "embeddings": embeddings, "hidden_size": 500,
            "num_layers": 2, "dropout": dropout, "hidden_dropout": dropout, "attention": "luong",
            "input_feeding": True, "init_hidden": "last",
        },
    }  # fmt: skip


def transformer(dropout: float) -> dict[str, Any]:
    """Return the options of the Transformer of the comparison."""
    sizes = TRANSFORMER
    side = {
        "type": "transformer", "embeddings": {"embedding_dim": sizes.width, "scale": True},
        "hidden_size": sizes.width, "ff_size": sizes.feed_forward, "num_layers": sizes.layers,
        "num_heads": sizes.heads, "layer_norm": "pre", "dropout": dropout,
    }  # fmt: skip
    return {"initializer": "xavier_uniform", "encoder": side, "decoder": side}


def configuration(args: argparse.Namespace, directory: Path) -> Any:
    """Return the configuration of the toolkit: its defaults except for the options set here."""
    dropout = args.dropout if args.mode == "train" else 0.0
    settings = {
        "name": "multi30k", "model_dir": str(directory), "use_cuda": False, "random_seed": args.seed,
        "data": {"special_symbols": {
            "pad_id": JOEY_PAD, "unk_id": JOEY_UNK, "bos_id": BOS, "eos_id": EOS,
            "pad_token": SPECIALS[PAD], "unk_token": SPECIALS[UNK],
            "bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS],
        }},
        "training": {"optimizer": "adam", "normalization": "tokens", "batch_size": 64, "epochs": 1},
        "testing": {},
        "model": recurrent(dropout) if args.kind == "lstm" else transformer(dropout),
    }  # fmt: skip
    if args.mode == "train":
        settings["training"] |= {
            "learning_rate": args.rate, "learning_rate_min": 0.0, "clip_grad_norm": args.clip,
            "scheduling": "exponential", "decrease_factor": 1.0,  # a constant schedule
        }  # fmt: skip
        if args.kind == "transformer":
            settings["training"]["adam_betas"] = (0.9, TRANSFORMER.beta2)
    return parse_global_args(settings, rank=0, mode="train")


def model_of(config: Any, data: Multi30k) -> Model:
    symbols = config.data["special_symbols"]
    sides = (data.source_words, data.target_words)
    vocabularies = [Vocabulary(words[len(SPECIALS) :], symbols) for words in sides]
    if any(len(vocabulary) != len(words) for vocabulary, words in zip(vocabularies, sides, strict=True)):
        raise RuntimeError("the vocabulary of JoeyNMT does not have the word order of the shared file")
    model = build_model(config.model, *vocabularies)
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
    model.loss_function = ("crossentropy", 0.0)
    return model


def train(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    with tempfile.TemporaryDirectory() as scratch:
        directory = args.model or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        config = configuration(args, directory)
        model = model_of(config, data)
        if args.kind == "transformer":
            model.loss_function = ("crossentropy", TRANSFORMER.label_smoothing)
        manager = TrainManager(
            rank=0, model=model, model_dir=directory, device=CPU, n_gpu=0, num_workers=0,
            autocast=config.autocast, seed=args.seed, train_args=config.train, dev_args=config.test,
        )  # fmt: skip
        raw_batches = list(data.train_batches(args.warmup + args.updates))
        batches = Clocked([tensors(batch) for batch in raw_batches], args.warmup)
        manager.train_and_validate(Neutral(batches), Neutral(Clocked([])))
        (directory / f"{len(raw_batches)}.ckpt").rename(directory / "model.ckpt")

    model.loss_function = ("crossentropy", 0.0)
    model.eval()
    loss = tokens = 0.0
    for batch in map(tensors, data.sorted_batches("valid", 64)):
        batch.sort_by_src_length()
        with torch.no_grad():
            loss += model(return_type="loss", **vars(batch))[0].item()
        tokens += batch.ntokens
    timed = sum(batch.target_tokens for batch in raw_batches[args.warmup :])
    report(
        system="joeynmt", mode="train", version=version("joeynmt"), torch=torch.__version__,
        tokens_per_s=timed / batches.seconds, peak_gib=batches.peak, valid_ppl=float(np.exp(loss / tokens)),
        seconds=batches.seconds, cpus=batches.cpus, updates=args.updates, tokens=timed,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )  # fmt: skip


def decode(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    config = configuration(args, args.model)
    model = model_of(config, data)
    model.load_state_dict(load_checkpoint(args.model / "model.ckpt", map_location=CPU)["model_state"])
    model.eval()

    def translate(batch: JoeyBatch) -> dict[int, list[str]]:
        undo = batch.sort_by_src_length()
        indices = batch.indices.tolist()
        found, _, _ = search(
            model=model, batch=batch, beam_size=args.beam, beam_alpha=-1, max_output_length=-1, n_best=1,
            generate_unk=True,
        )  # fmt: skip
        sentences = model.trg_vocab.arrays_to_sentences(found, cut_at_eos=True)
        end = SPECIALS[EOS]
        return {indices[place]: [word for word in sentences[place] if word != end] for place in undo}

    raw_batches = list(data.sorted_batches("test", args.batch, args.sentences))
    translate(tensors(raw_batches[0], with_target=False))  # warm-up
    batches = Clocked([tensors(batch, with_target=False) for batch in raw_batches])
    translations: dict[int, list[str]] = {}
    for batch in batches:
        translations |= translate(batch)
    if args.output:
        write_translations(args.output, translations)
    report(
        system="joeynmt", mode="decode", version=version("joeynmt"), torch=torch.__version__,
        sentences_per_s=len(translations) / batches.seconds, peak_gib=batches.peak, seconds=batches.seconds,
        cpus=batches.cpus, sentences=len(translations), words=sum(map(len, translations.values())),
    )  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.INFO)
    warnings.filterwarnings("ignore")
    chosen = arguments(__doc__)
    if chosen.kind == "conv":
        raise SystemExit("JoeyNMT has no convolutional model: use --kind lstm or --kind transformer")
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    {"train": train, "decode": decode}[chosen.mode](chosen)
