"""Hugging Face directories like published ones: whether their translations are those of `generate`.

    python benchmarks/hf_kinds.py --lines 200      # the kinds of published translators in all formats

Models are small, with random weights, and made from configurations; nothing is downloaded. Weights are saved
as safetensors or as pickles (`pytorch_model.bin`), in one file or in shards.
Both sides use the settings in `generation_config.json` and no other options: the text of
`regard.load(DIRECTORY).translate(lines)` is compared with that of `generate`, line by line.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch
import transformers
from transformers.utils import logging

import regard
from extensions.hf import tiny
from regard.extensions.hf import model_format
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.runs.description import load_description
from regard.text.vocabulary import EOS

PUBLISHED: dict[str, Callable[[Path], Any]] = {
    "OPUS-MT (Marian)": tiny.marian,
    "NLLB": tiny.nllb,
    "M2M-100": tiny.m2m100,
    "MADLAD (T5, gated)": partial(tiny.t5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "mBART-50": tiny.mbart,
    "T5": tiny.t5,
}
FORMATS = ("safetensors", "safetensors, sharded", "pickle", "pickle, sharded")
MAX_LENGTH = 24


def sentences(count: int) -> list[str]:
    """Return different source lines of 1 to 6 words."""
    generator = random.Random(1)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(generator.choices(tiny.WORDS, k=generator.randint(1, 6)))] = None
    return list(found)


def save_published(save: Callable[[Path], Any], form: str, directory: Path) -> Any:
    """Save a model in a weight format, and return the model."""
    torch.manual_seed(0)
    directory.mkdir(parents=True)
    model = save(directory).eval()
    model.save_pretrained(directory, max_shard_size="8KB" if form == "safetensors, sharded" else "1GB")
    if form.startswith("pickle"):
        (directory / "model.safetensors").unlink()
        state = model.state_dict()
        if form == "pickle":
            torch.save(state, directory / "pytorch_model.bin")
        else:
            tiny.pickle_shards(directory, state, 10)
    return model


def prepare_generation(directory: Path, size: int, max_length: int, num_beams: int) -> None:
    """Write generation settings: beam search, and no tokens that regard never generates.

    Published models suppress padding; the ids without a token have no text.

    Args:
        directory: The directory.
        size: The model's number of output tokens.
        max_length: Maximum length of a translation, with the start symbol.
        num_beams: Number of beams.
    """
    tokenizer = model_format.load_text(directory, load_description(directory)).target.tokenizer
    assert isinstance(tokenizer, PretrainedTokenizer)
    generated = {*tokenizer.library_ids[5:], tokenizer.library_ids[EOS]}
    path = directory / "generation_config.json"
    settings = json.loads(path.read_text())
    settings |= {
        "num_beams": num_beams,
        "max_length": max_length,
        "suppress_tokens": [number for number in range(size) if number not in generated],
        "encoder_no_repeat_ngram_size": 0,
    }
    path.write_text(json.dumps(settings))


def equal_lines(directory: Path, beam: int, lines: Sequence[str]) -> int:
    """Return the number of lines whose translation is that of `generate`, with the directory's settings."""
    ours = [one.text for one in regard.load(directory, device="cpu").translate(lines)]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    assert model.generation_config.num_beams == beam
    special = {*tokenizer.all_special_ids, *getattr(tokenizer, "id_to_lang_token", {})}
    theirs: list[str] = []
    for start in range(0, len(lines), 50):
        batch = tokenizer(list(lines[start : start + 50]), return_tensors="pt", padding=True)
        for row in model.generate(**batch).tolist():
            words = [number for number in row if number not in special]
            theirs.append(tokenizer.decode(words).strip())
    return sum(own == other for own, other in zip(ours, theirs, strict=True))


def report(name: str, form: str, directory: Path, model: Any, lines: Sequence[str]) -> None:
    """Print a row of the result table: the numbers of equal lines by greedy search and with a beam of 4."""
    start, found = time.perf_counter(), []
    size = model.get_output_embeddings().weight.shape[0]
    for beam in (1, 4):
        prepare_generation(directory, size, MAX_LENGTH, beam)
        found.append(equal_lines(directory, beam, lines))
    seconds = time.perf_counter() - start
    print(f"| {name} | {form} | {found[0]} | {found[1]} | {len(lines)} | {seconds:.1f} |", flush=True)


def main() -> None:
    """Run the comparison that the command line selects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        parent = Path(name)
        lines = sentences(options.lines)
        print("| model | weights | equal, greedy | equal, beam of 4 | lines | s |\n|---|---|---|---|---|---|")
        for number, (label, save) in enumerate(PUBLISHED.items()):
            for place, form in enumerate(FORMATS):
                directory = parent / f"{number}-{place}"
                report(label, form, directory, save_published(save, form, directory), lines)


if __name__ == "__main__":
    main()
