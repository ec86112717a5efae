"""Budgets of attention in a fine-tuned Marian-type model: REP and DROP before and after.

    python benchmarks/hf_budgets.py DIRECTORY [--pairs 20000] [--steps 4000] [--more-steps 500]
        [--width 128] [--layers 2] [--batch-size 64] [--test-size 200] [--json FILE]

Makes a small model of the Marian type with random weights, trains it on the phrasebook with softmax, and
fine-tunes it with constrained sparsemax in the cross-attention of every decoder layer, whose source words
have a fertility. As controls, softmax and sparsemax are fine-tuned for the same number of steps. The table
has BLEU, REP and DROP (Malaviya et al. (2018), Section 5) of the test text, with gold word links of source
and reference and the links of an aligner for the translations. Runs that exist in DIRECTORY are not trained
again.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from transformers.utils import logging

import regard
from regard.extensions.phrasebook.corpus import write_splits

VOCAB_SIZE = 700
SEED = 1
FERTILITY = {"kind": "constant", "value": 1.5}
MECHANISMS: dict[str, dict[str, Any]] = {
    "softmax": {"kind": "soft", "normalizer": "softmax"},
    "sparsemax": {"kind": "soft", "normalizer": "sparsemax"},
    "constrained": {"kind": "constrained", "normalizer": "sparsemax", "fertility_sharing": "per_layer"},
}


def write_model(directory: Path, corpus: Path, width: int, layers: int) -> None:
    """Write a Marian-type model with random weights, and its two SentencePiece models."""
    directory.mkdir(parents=True, exist_ok=True)
    tokens = {"</s>": 0, "<unk>": 1}
    for side, language in (("source", "de"), ("target", "en")):
        with tempfile.TemporaryDirectory() as made:
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus / f"train.{language}"),
                model_prefix=f"{made}/spm",
                vocab_size=VOCAB_SIZE,
                hard_vocab_limit=False,
                minloglevel=2,
            )
            (directory / f"{side}.spm").write_bytes(Path(made, "spm.model").read_bytes())
            entries = Path(made, "spm.vocab").read_text(encoding="utf-8").split("\n")[3:-1]
        for entry in entries:  # a subword token and its score
            tokens.setdefault(entry.partition("\t")[0], len(tokens))
    tokens["<pad>"] = len(tokens)
    (directory / "vocab.json").write_text(json.dumps(tokens))
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "de", "target_lang": "en"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(SEED)
    config = transformers.MarianConfig(
        vocab_size=len(tokens),
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width,
        max_position_embeddings=128,
        pad_token_id=tokens["<pad>"],
        eos_token_id=0,
        decoder_start_token_id=tokens["<pad>"],
        forced_eos_token_id=None,
        init_std=0.05,
    )
    model = transformers.MarianMTModel(config)
    model.generation_config.max_length = None
    model.save_pretrained(directory)


def train(
    directory: Path, name: str, mechanism: str, steps: int, batch_size: int, start: str | None = None
) -> Path:
    """Train a model with a mechanism, from the weights of another run if given, and return its directory."""
    corpus, output = directory / "corpus", directory / name
    tokenizer = {"kind": "pretrained", "path": str(directory / "marian")}
    text = {
        split: {"source": str(corpus / f"{split}.de"), "target": str(corpus / f"{split}.en")}
        for split in ("train", "valid")
    }
    data: dict[str, Any] = {
        "cache_dir": str(directory / f"prepared-{mechanism}"),
        "train": [text["train"]],
        "valid": text["valid"],
        "source_tokenizer": tokenizer,
        "target_tokenizer": tokenizer,
    }
    if mechanism == "constrained":
        data["fertility"] = FERTILITY
    training: dict[str, Any] = {
        "batch_size": batch_size,
        "batch_unit": "sentences",
        "optimizer": {"kind": "adam", "learning_rate": 2e-3 if start is None else 5e-4, "max_grad_norm": 1.0},
        "lr_scheduler": {"kind": "constant", "warmup_steps": 200},
        "max_steps": steps,
        "validation": {"every_steps": max(steps, 1)},
    }
    if start is not None:
        training["init_from"] = str(directory / start)
    model = {"kind": "hf", "path": str(directory / "marian"), "attention": MECHANISMS[mechanism]}
    regard.train({"seed": SEED, "device": "cpu", "data": data, "model": model, "training": training}, output)
    return output


def measure(run: Path, corpus: Path, aligner: regard.Aligner) -> dict[str, float]:
    """Return BLEU, REP and DROP of the test text."""
    sources, references = ((corpus / f"test.{side}").read_text().splitlines() for side in ("de", "en"))
    model = regard.load(run, device="cpu")
    errors = regard.analyze.errors(model, sources, references, aligner=aligner)
    translations = [
        " ".join(sentence.output) for sentence in sorted(errors.sentences, key=lambda one: one.line)
    ]
    scores = regard.evaluate(
        translations,
        references,
        metrics="bleu,drop",
        reference_links=corpus / "test.talp",
        hypothesis_links=aligner.align(sources, translations),
    )
    return {"bleu": scores.bleu, "rep": errors.rep, "drop": scores.drop}


def main() -> None:
    """Train, measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="directory of all files")
    parser.add_argument("--pairs", type=int, default=20_000, help="number of training pairs")
    parser.add_argument("--steps", type=int, default=4000, help="training steps with softmax")
    parser.add_argument("--more-steps", type=int, default=500, help="steps of fine-tuning")
    parser.add_argument("--width", type=int, default=128, help="dimension of the model")
    parser.add_argument("--layers", type=int, default=2, help="number of encoder and of decoder layers")
    parser.add_argument("--batch-size", type=int, default=64, help="sentences per training step")
    parser.add_argument("--test-size", type=int, default=200, help="number of test pairs")
    parser.add_argument("--json", type=Path, help="output file")
    options = parser.parse_args()
    directory = options.directory
    corpus = directory / "corpus"
    logging.disable_progress_bar()
    if not corpus.exists():
        write_splits(corpus, {"train": options.pairs, "valid": 100, "test": options.test_size}, SEED)
        write_model(directory / "marian", corpus, options.width, options.layers)
    train(directory, "base", "softmax", options.steps, options.batch_size)
    for mechanism in MECHANISMS:
        train(directory, mechanism, mechanism, options.more_steps, options.batch_size, start="base")
    lines = ((corpus / f"train.{side}").read_text().splitlines() for side in ("de", "en"))
    aligner = regard.Aligner.train(*lines)
    found = {name: measure(directory / name, corpus, aligner) for name in ("base", *MECHANISMS)}
    print(f"{'model':14}{'BLEU':>8}{'REP':>8}{'DROP':>8}")
    for name, scores in found.items():
        print(f"{name:14}{scores['bleu']:8.2f}{scores['rep']:8.2f}{scores['drop']:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
