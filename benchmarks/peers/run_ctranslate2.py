"""Measure CTranslate2 4: its beam search with our own trained Transformer, from `regard export`.

Run by the interpreter of this project, which has CTranslate2 as an extra. The script only decodes. The
exported model is in the directory of the trained model and is created by a separate process, so that the
peak memory is that of the search. Each batch is one call; batches are translated in parallel, one per
thread. No token is suppressed (a trained model does not generate padding, start or sink). The search for a
sentence ends when the number of finished hypotheses equals the beam size.
"""

import argparse
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ctranslate2
from measure import Clocked, arguments, report, write_translations
from multi30k import Batch, Multi30k

__all__: list[str] = []


def exported(directory: Path, precision: str) -> Path:
    """Return the directory of the exported model, which is created if necessary."""
    out = directory / f"ctranslate2-{precision}"
    if not out.exists():
        words = ["export", "ctranslate2", str(directory), "-o", str(out), "--quantization", precision]
        done = subprocess.run(
            [sys.executable, "-m", "regard", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"regard export: {done.stderr.strip()}")
    return out


def decode(args: argparse.Namespace) -> None:
    if args.kind != "transformer":
        raise SystemExit("ctranslate2 supports only Transformers: use --kind transformer")
    data = Multi30k(args.data)
    translator = ctranslate2.Translator(
        str(exported(args.model, args.precision)), compute_type=args.precision,
        inter_threads=args.threads, intra_threads=1,
    )  # fmt: skip

    def begin(batch: Batch) -> list[Any]:
        sources = [[data.source_words[number] for number in sentence] for sentence in batch.source]
        return translator.translate_batch(
            sources, beam_size=args.beam, length_penalty=0, max_input_length=0, min_decoding_length=0,
            max_decoding_length=int(1.5 * max(map(len, sources))) + 1, asynchronous=True,
        )  # fmt: skip

    def translate(batches: list[Batch]) -> dict[int, list[str]]:
        found = [(batch, begin(batch)) for batch in batches]
        pairs = [pair for batch, begun in found for pair in zip(batch.indices, begun, strict=True)]
        return {row: one.result().hypotheses[0] for row, one in pairs}

    raw_batches = list(data.sorted_batches("test", args.batch, args.sentences))
    translate(raw_batches[: args.threads])  # warm-up
    clock = Clocked([raw_batches])
    translations: dict[int, list[str]] = {}
    for batches in clock:
        translations |= translate(batches)
    if args.output:
        write_translations(args.output, translations)
    report(
        system="ctranslate2", mode="decode", version=version("ctranslate2"), torch=None,
        precision=args.precision, sentences_per_s=len(translations) / clock.seconds,
        peak_gib=clock.peak, seconds=clock.seconds, cpus=clock.cpus, sentences=len(translations),
        words=sum(map(len, translations.values())),
    )  # fmt: skip


if __name__ == "__main__":
    chosen = arguments(__doc__)
    if chosen.mode == "train":
        raise SystemExit("ctranslate2 does not support training: use decode")
    decode(chosen)
