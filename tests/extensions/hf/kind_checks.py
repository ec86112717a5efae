"""The abilities of a sequence-to-sequence directory in regard, compared with transformers itself.

`check_kind` returns a row of the table in `docs/hugging_face_kinds.md`.
"""

# pyright: basic

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch
from regard.extensions.hf import model_format
from regard.extensions.hf.config import HfConfig
from regard.extensions.hf.systems import HfSystem
from regard.generation.beam import beam_search
from regard.generation.config import search_settings
from regard.generation.forced import force_decode
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.runs.description import load_description
from regard.runs.loading import LoadedModel, load_model
from regard.text.vocabulary import EOS

__all__ = [
    *("COLUMNS", "PAGE", "KindRow", "Pair", "check_kind", "format_table", "prepare_generation", "read_table"),
    *("same_translations", "write_table"),
]

PAGE = Path(__file__).parents[3] / "docs" / "hugging_face_kinds.md"
START, END = "<!-- table -->\n", "<!-- end of table -->"
LINES = ["ein kleiner Hund läuft im Garten .", "die Katze", "der Mann liest ein Buch ."]
TARGETS = ["a small dog runs .", "the cat", "the man reads a book ."]
TERM = "dog"
MAX_LENGTH = 10
COLUMNS = ("greedy", "beam", "score", "attention", "batch", "terms", "swapped")
"""The checks, in the order of the table's columns."""
TITLES = (
    *("Model type", "Greedy = `generate`", "Beam of 4 = `generate`", "Score = loss", "Attention maps"),
    *("Same in any batch", "Required terms", "Other attention"),
)


@dataclass(frozen=True)
class KindRow:
    """The results of the checks of one kind, by the names in `COLUMNS`."""

    kind: str
    passed: dict[str, bool]

    def to_markdown(self) -> str:
        """Return the row of the table."""
        cells = [f"`{self.kind}`", *("yes" if self.passed[name] else "no" for name in COLUMNS)]
        return f"| {' | '.join(cells)} |"


def read_table() -> dict[str, str]:
    """Return the rows of the table in the documentation by kind."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    rows = [line for line in rest.partition(END)[0].splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: line for line in rows}


def write_table(rows: Sequence[KindRow]) -> None:
    """Replace the table in the documentation."""
    before, start, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    PAGE.write_text(f"{before}{start}\n{format_table(rows)}\n{end}{after}", encoding="utf-8")


def format_table(rows: Sequence[KindRow]) -> str:
    """Return the table in Markdown."""
    lines = [f"| {' | '.join(TITLES)} |", f"|{'---|' * len(TITLES)}"]
    return "\n".join([*lines, *(row.to_markdown() for row in rows)]) + "\n"


def prepare_generation(directory: Path, size: int, max_length: int = MAX_LENGTH, num_beams: int = 4) -> None:
    """Write generation settings: beam search, and no tokens that regard never generates.

    Published models suppress padding; the ids without a token have no text.

    Args:
        directory: The directory.
        size: The model's number of output tokens.
        max_length: Maximum length of a translation, with the start symbol.
        num_beams: Number of beams.
    """
    tokenizer = model_format.load_text(directory, load_description(directory)).target.tokenizer
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


class Pair:
    """A directory opened by regard and by transformers."""

    def __init__(self, directory: Path) -> None:
        """Open the directory twice."""
        self.directory = directory
        self.own = load_model(directory, "cpu")
        self.library = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            directory, attn_implementation="eager"
        ).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self.ids = self.own.text.target.tokenizer.library_ids

    def batch(self, sources: Sequence[str], targets: Sequence[str] | None = None) -> Batch:
        """Return a batch of our ids."""
        text = self.own.text
        target_ids = None if targets is None else [[*text.target.encode(line), EOS] for line in targets]
        return text.batch([text.source.encode(line) for line in sources], target_ids, range(len(sources)))

    def inputs(self, lines: Sequence[str]) -> Any:
        """Return the library's ids and masks."""
        return self.tokenizer(list(lines), return_tensors="pt", padding=True)


def same_translations(pair: Pair, lines: Sequence[str], beam: int) -> bool:
    """Return whether the best translation of every line is that of `generate`."""
    search = search_settings(pair.own.config.generation, {"beam_size": beam})
    ours = [found[0].tokens for found in beam_search(pair.own.model, pair.batch(lines).source, search)]
    with torch.no_grad():
        made = pair.library.generate(**pair.inputs(lines), num_beams=beam, do_sample=False)
    end, before = pair.ids[EOS], len(pair.own.model.start)
    for own, row in zip(ours, made[:, before:].tolist(), strict=True):
        theirs = row[: row.index(end)] if end in row else row
        if [pair.ids[token] for token in own] != theirs:
            return False
    return True


def _score(pair: Pair) -> bool:
    """Return whether log-probabilities are those of the library's loss, to 1e-5 per token."""
    found = force_decode(pair.own.model, pair.batch(LINES, TARGETS))
    start = list(pair.own.model.start)
    for source, target, own in zip(LINES, TARGETS, found, strict=True):
        ids = [pair.ids[token] for token in [*pair.own.text.target.encode(target), EOS]]
        labels = torch.tensor([[-100] * (len(start) - 1) + ids])
        decoder_ids = torch.tensor([[*start, *ids[:-1]]])
        with torch.no_grad():
            output = pair.library(**pair.inputs([source]), decoder_input_ids=decoder_ids, use_cache=False)
        loss = torch.nn.functional.cross_entropy(output.logits[0], labels[0]).item()
        if abs(own.log_probability / len(ids) + loss) > 1e-5:
            return False
    return True


def _attention(pair: Pair) -> bool:
    """Return whether the attention to the source is that of the library."""
    data = pair.batch(LINES[:1], TARGETS[:1])
    with torch.no_grad():
        ours = pair.own.model(data).cross_attentions
        start = list(pair.own.model.start)
        ids = [pair.ids[token] for token in pair.own.text.target.encode(TARGETS[0])]
        decoder_ids = torch.tensor([[*start, *ids]])
        theirs = pair.library(
            **pair.inputs(LINES[:1]), decoder_input_ids=decoder_ids, output_attentions=True, use_cache=False
        ).cross_attentions
    order = pair.own.model.layout.from_encoder_order(data.source)[0]
    return bool(ours) and all(
        torch.allclose(own[0], other[0, :, len(start) - 1 :][..., order].transpose(0, 1), atol=1e-5)
        for own, other in zip(ours, theirs, strict=True)
    )


def _batch(pair: Pair) -> bool:
    """Return whether translations and scores are those of each sentence alone."""
    search, model = pair.own.config.generation, pair.own.model
    together = beam_search(model, pair.batch(LINES).source, search)
    forced = force_decode(model, pair.batch(LINES, TARGETS))
    for source, target, several, scored in zip(LINES, TARGETS, together, forced, strict=True):
        (alone,) = beam_search(model, pair.batch([source]).source, search)
        (own,) = force_decode(model, pair.batch([source], [target]))
        if alone[0].tokens != several[0].tokens or abs(alone[0].score - several[0].score) > 1e-4:
            return False
        if abs(own.log_probability - scored.log_probability) > 1e-4:
            return False
    return True


def _terms(one: LoadedModel) -> bool:
    """Return whether every translation contains a required term."""
    translator = NeuralTranslator(one.model, one.text, one.config.generation)
    found = translator.translate(enumerate_lines(LINES, terms=[TERM] * len(LINES)))
    return all(not one.missing_terms and TERM in one.text for one in found)


def _swapped(one: LoadedModel, directory: Path) -> bool:
    """Return whether sparsemax can replace softmax: distributions with exact zeros."""
    config = HfConfig(path=str(directory), attention=SoftAttentionConfig(normalizer="sparsemax"))
    model = HfSystem.build(config, one.text).eval()
    ids = [[*one.text.target.encode(line), EOS] for line in TARGETS]
    data = one.text.batch([one.text.source.encode(line) for line in LINES], ids, range(3))
    assert data.target is not None
    with torch.no_grad():
        weights = model(data).cross_attentions
    real = data.target.mask
    sums = all(torch.allclose(layer.sum(-1)[real], torch.ones(()), atol=1e-5) for layer in weights)
    return sums and any(bool((layer[0, 0, :, : data.source.lengths[0]] == 0).any()) for layer in weights)


def check_kind(kind: str, directory: Path) -> KindRow:
    """Run all checks on a directory whose generation settings `prepare_generation` has written."""
    pair = Pair(directory)
    return KindRow(
        kind,
        {
            "greedy": same_translations(pair, LINES, 1),
            "beam": same_translations(pair, LINES, 4),
            "score": _score(pair),
            "attention": _attention(pair),
            "batch": _batch(pair),
            "terms": _terms(pair.own),
            "swapped": _swapped(pair.own, directory),
        },
    )
