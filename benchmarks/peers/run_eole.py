"""Measure eole 0.6: its own model builder, trainer, checkpoint and predictor, on the shared batches.

Run by the interpreter of the toolkit. Only Transformers are measured. The package imports all text
transforms; two of them require spaCy and fastText, which are replaced by empty modules. No transform is
used here, so their absence only reduces the memory of the toolkit.

Its decoder supports only pre-norm. The divisor of its loss omits one token per sentence (as in OpenNMT-py),
which has no effect on Adam and almost none on clipping. Its validation loss has label smoothing like the
training loss; smoothing is turned off before validation so that perplexities are comparable. The maximum
length of its search is 1.5 times the longest source of the batch plus 5 tokens.
"""

import argparse
import logging
import sys
import tempfile
import types
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from measure import TRANSFORMER, Clocked, arguments, report, write_translations
from multi30k import BOS, EOS, SPECIALS, Batch, Multi30k

__all__: list[str] = []

for absent in ("fasttext", "spacy"):
    sys.modules[absent] = types.ModuleType(absent)
warnings.filterwarnings("ignore", category=RuntimeWarning, module="eole")  # its CUDA extensions are missing

import pyonmttok  # noqa: E402
from eole.config.run import PredictConfig, TrainConfig  # noqa: E402
from eole.inputters.text_utils import tensorify  # noqa: E402
from eole.models.model import get_model_class  # noqa: E402
from eole.models.model_saver import build_model_saver  # noqa: E402
from eole.predict import build_predictor  # noqa: E402
from eole.predict.prediction import PredictionBuilder  # noqa: E402
from eole.trainer import build_trainer  # noqa: E402
from eole.utils.optimizers import Optimizer  # noqa: E402


def configuration(args: argparse.Namespace, directory: Path) -> Any:
    """Return the configuration of the toolkit: its defaults except for the options set here."""
    sizes = TRANSFORMER
    model = {
        "architecture": "transformer", "layers": sizes.layers, "hidden_size": sizes.width,
        "heads": sizes.heads, "transformer_ff": sizes.feed_forward, "add_qkvbias": True,
        "add_final_linear_bias": True, "add_ffnbias": True,
        "embeddings": {
            "word_vec_size": sizes.width, "position_encoding_type": "SinusoidalInterleaved",
        },
    }  # fmt: skip
    training = {
        "model_path": str(directory), "param_init_method": "xavier_uniform", "optim": "adam",
        "adam_beta2": sizes.beta2, "learning_rate": args.rate, "max_grad_norm": args.clip,
        "normalization": "tokens", "batch_size": 64, "dropout": [args.dropout], "attention_dropout": [0.0],
        "label_smoothing": sizes.label_smoothing, "world_size": 1, "gpu_ranks": [],
    }  # fmt: skip
    return TrainConfig(
        data={}, src_vocab="unused", tgt_vocab="unused", seed=args.seed, model=model, training=training
    )


def vocabularies(data: Multi30k) -> dict[str, Any]:
    """Return the vocabularies of the toolkit, with the ids of the shared file."""
    sides: dict[str, Any] = {}
    for side, words in (("src", data.source_words), ("tgt", data.target_words)):
        sides[side] = pyonmttok.build_vocab_from_tokens(words)
        sides[side].default_id = sides[side][SPECIALS[1]]
        if sides[side].ids_to_tokens != words:
            raise RuntimeError("the vocabulary of eole does not have the word order of the shared file")
    names = ("pad_token", "unk_token", "bos_token", "eos_token")
    return {
        **sides,
        "decoder_start_token": SPECIALS[BOS],
        "specials": dict(zip(names, SPECIALS, strict=True)),
    }


def tensors(batch: Batch, vocabs: dict[str, Any], with_target: bool = True) -> tuple[dict[str, Any], int]:
    """Return a batch as collated by the toolkit, and its bucket number."""
    examples = []
    for index, source, target in zip(batch.indices, batch.source, batch.target, strict=True):
        example = {
            "src": {"src_ids": source}, "tgt": {"tgt_ids": [BOS, *target, EOS]} if with_target else None,
            "cid": "train" if with_target else "infer", "cid_line_number": index, "sco": 1.0,
        }  # fmt: skip
        examples.append((example, index))
    return tensorify(vocabs, examples, torch.device("cpu")), 0


def train(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    vocabs = vocabularies(data)
    with tempfile.TemporaryDirectory() as scratch:
        config = configuration(args, args.model or Path(scratch))
        model = get_model_class(config.model).for_training(
            config.model, vocabs, config.training, device_id=-1
        )
        optim = Optimizer.from_config(model, config)
        saver = build_model_saver(config, model, vocabs, optim, -1, None) if args.model else None
        trainer = build_trainer(config, -1, model, vocabs, optim, model_saver=saver)
        raw_batches = list(data.train_batches(args.warmup + args.updates))
        batches = Clocked([tensors(batch, vocabs) for batch in raw_batches], args.warmup)
        trainer.train(batches, train_steps=0, save_checkpoint_steps=0, valid_steps=2**60)

        trainer.valid_loss.criterion.label_smoothing = 0.0
        stats = trainer.validate([tensors(batch, vocabs) for batch in data.sorted_batches("valid", 64)])
    tokens = sum(batch.target_tokens for batch in raw_batches[args.warmup :])
    report(
        system="eole", mode="train", version=version("eole"), torch=torch.__version__,
        tokens_per_s=tokens / batches.seconds, peak_gib=batches.peak, valid_ppl=stats.ppl(),
        seconds=batches.seconds, cpus=batches.cpus, updates=args.updates, tokens=tokens,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )  # fmt: skip


def decode(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    config = PredictConfig(
        model_path=str(args.model), src="unused", beam_size=args.beam, batch_size=args.batch,
        length_penalty="none", max_length_ratio=1.5, seed=args.seed, world_size=1, gpu_ranks=[],
    )  # fmt: skip
    predictor = build_predictor(config, device_id=-1, report_score=False, logger=logging.getLogger())
    vocabs = predictor.vocabs
    builder = PredictionBuilder(vocabs, n_best=1, tgt_eos_idx=[EOS])
    raw_batches = list(data.sorted_batches("test", args.batch, args.sentences))
    batches = Clocked([tensors(batch, vocabs, with_target=False)[0] for batch in raw_batches])
    predictor.predict_batch(tensors(raw_batches[0], vocabs, with_target=False)[0], False)  # warm-up

    translations = {}
    for batch in batches:
        for found in builder.from_batch(predictor.predict_batch(batch, False)):
            translations[int(found.ind_in_bucket)] = found.pred_sents[0]
    if args.output:
        write_translations(args.output, translations)
    report(
        system="eole", mode="decode", version=version("eole"), torch=torch.__version__,
        sentences_per_s=len(translations) / batches.seconds, peak_gib=batches.peak, seconds=batches.seconds,
        cpus=batches.cpus, sentences=len(translations), words=sum(map(len, translations.values())),
    )  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.INFO)
    chosen = arguments(__doc__)
    if chosen.kind != "transformer":
        raise SystemExit("eole is measured only with Transformers: use --kind transformer")
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    {"train": train, "decode": decode}[chosen.mode](chosen)
