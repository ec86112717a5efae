"""The inputs that the fuzzer changes, the commands that read them, and the ways to change text and bytes."""

import gzip
import random
from dataclasses import dataclass
from pathlib import Path

import torch

from extensions.hf import tiny

MAKES = (
    "phrasebook corpus --num-train 120 --num-valid 8 --num-test 4",
    "prepare lstm.toml",
    "train lstm.toml --output-dir model",
    "train lstm.toml --output-dir bounded data.fertility.kind=constant model.attention.kind=constrained",
    "train phrase.toml --output-dir phrased",
    "align corpus/train.de corpus/train.en --model hmm --save-aligner aligner -o links.txt --num-threads 1",
    "align corpus/test.de corpus/test.en --aligner aligner -o test-links.txt --num-threads 1",
    "check corpus/test.de corpus/test.en --train corpus/train.de corpus/train.en "
    "--save-checker checker --num-threads 1",
    "corrupt corpus/test.de corpus/test.en --checker checker --labels-output labels.jsonl",
)
"""The commands that create the base, in order."""


@dataclass(frozen=True)
class Target:
    """A kind of input.

    Attributes:
        name: The name in the table of attacks.
        files: The files that are changed, one at a time, as a pattern below the base.
        line: The command that reads them.
        sealed: Whether a changed file must be rejected or leave the result unchanged.
    """

    name: str
    files: str
    line: str
    sealed: bool = False


_TRANSLATE = "translate {} --input corpus/test.de --num-threads 1"
_CHECK = "check corpus/test.de corpus/test.en --num-threads 1 --json check.json --checker checker"
_HF = ("marian", "bart", "m2m100", "gpt2")
TARGETS = (
    Target("config", "lstm.toml", "config lstm.toml"),
    Target("text", "corpus/test.de", _TRANSLATE.format("model")),
    Target("packed text", "packed.gz", "translate model --input packed.gz --num-threads 1"),
    Target("pairs", "corpus/test.*n", "score model corpus/test.de corpus/test.en --num-threads 1"),
    Target(
        "references",
        "corpus/valid.en",
        "evaluate corpus/valid.en corpus/valid.en --metrics chrf --num-bootstrap-samples 2",
    ),
    Target("table", "pairs.tsv", "prepare tsv.toml"),
    Target("links", "corpus/valid.talp", "fertility corpus/valid.de --links corpus/valid.talp -o f.txt"),
    Target(
        "gold links",
        "corpus/test.talp",
        "evaluate --gold-links corpus/test.talp --predicted-links test-links.txt",
    ),
    Target("terms", "terms.txt", _TRANSLATE.format("model") + " --required-terms terms.txt"),
    Target("prefixes", "prefix.txt", _TRANSLATE.format("model") + " --prefixes prefix.txt"),
    Target("fertilities", "fertility.txt", _TRANSLATE.format("bounded") + " --fertilities fertility.txt"),
    Target("model", "model/[mst]*", _TRANSLATE.format("model"), sealed=True),
    Target("model's config", "model/config.toml", _TRANSLATE.format("model")),
    Target("phrase table", "phrased/phrase/*", _TRANSLATE.format("phrased"), sealed=True),
    Target(
        "aligner",
        "aligner/*",
        "align corpus/test.de corpus/test.en --aligner aligner --num-threads 1",
        sealed=True,
    ),
    Target("checked text", "corpus/test.??", _CHECK),
    Target("labels", "labels.jsonl", f"{_CHECK} --labels labels.jsonl"),
    Target("checker", "checker/**/*.[sw]*", _CHECK, sealed=True),
    Target("checker's descriptions", "checker/**/*.json", _CHECK),
    Target("corrupted text", "corpus/valid.??", "corrupt corpus/valid.de corpus/valid.en --checker checker"),
    *(Target(f"Hugging Face, {kind}", f"{kind}/*", _TRANSLATE.format(kind)) for kind in _HF),
    Target("Hugging Face, scores", "bart/*", "score bart corpus/test.de corpus/test.en --num-threads 1"),
    Target("prepared", "prepared/*", "prepare lstm.toml data.cache_dir=prepared data.min_frequency=1"),
)


def write_more(root: Path) -> None:
    """Write the inputs that no command creates."""
    torch.manual_seed(1)
    for kind in _HF:
        getattr(tiny, kind)(root / kind)
    (root / "gpt2" / "regard_prompt.json").write_text('{"template": "{source} :", "stop_at_newline": true}')
    lines = [(root / f"corpus/test.{side}").read_text().splitlines() for side in ("de", "en")]
    (root / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*lines, strict=True)))
    config = (root / "lstm.toml").read_text()
    start, end = config.index("train = ["), config.index("[model]")
    tsv = 'train = [{ file = "pairs.tsv" }]\nvalid = { file = "pairs.tsv" }\n'
    (root / "tsv.toml").write_text(
        config[:start].replace('"prepared"', '"prepared-tsv"') + tsv + config[end:]
    )
    (root / "packed.gz").write_bytes(gzip.compress((root / "corpus/test.de").read_bytes()))
    (root / "terms.txt").write_text("".join(f"{b.split()[0]}\n" for b in lines[1]))
    (root / "prefix.txt").write_text("".join(f"{b.split()[0]}\n" for b in lines[1]))
    (root / "fertility.txt").write_text("".join(" ".join("2" for _ in a.split()) + "\n" for a in lines[0]))


_TOKENS = [
    *("9" * 5000, "0x" + "f" * 20_000, "-1", "0", "1e400", "nan", "-inf", "1e-400", "1.5", "true", "null"),
    *(str(2**31), str(2**63), str(10**23), "1000000007", "[" * 3000, "{" * 3000, "[" * 900 + "]" * 900),
    *("../../etc/passwd", "/etc/passwd", "/dev/zero", ".", "\0", "\r", "\t", "\n\n", "\u2028", "\ufeff"),
    *("\udc80", "e\u0301" * 50, "\U0001f600", "<s>", "</s>", "<unk>", "|||", "0-0", "99999999-1", " " * 40),
]  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Change a file in one to four random ways."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        content = rng.choice(_WAYS)(content, rng)
    return content


def _place(content: bytes, rng: random.Random) -> int:
    return rng.randrange(len(content) + 1)


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 20)) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: _place(content, rng)]


def _drop(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:start] + content[min(end, start + rng.choice((1, 8, 400))) :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place, token = _place(content, rng), rng.choice(_TOKENS).encode("utf-8", "surrogatepass")
    return content[:place] + token + content[place:]


def _replace(content: bytes, rng: random.Random) -> bytes:
    """Replace a number, a word or a string by another token."""
    start = _place(content, rng)
    while start < len(content) and not chr(content[start]).isalnum():
        start += 1
    end = start
    while end < len(content) and (chr(content[end]).isalnum() or content[end] in b".-_"):
        end += 1
    return content[:start] + rng.choice(_TOKENS).encode("utf-8", "surrogatepass") + content[end:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        row = rng.randrange(len(lines))
        lines[row : row + 1] = rng.choice(
            ([], [lines[row]] * 2, [b"\n"], [rng.choice(lines)], lines[row:][::-1])
        )
    return b"".join(lines)


def _long(content: bytes, rng: random.Random) -> bytes:
    place = _place(content, rng)
    return content[:place] + rng.choice((b"a", b"a ", b"\xc3\xa4", b"0-0 ")) * (3 << 19) + content[place:]


def _pack(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(content * rng.choice((1, 1, 50)), 1)


def _splice(content: bytes, rng: random.Random) -> bytes:
    start, place = _place(content, rng), _place(content, rng)
    return content[:place] + content[start : start + rng.choice((4, 40, 400))] + content[place:]


_WAYS = (*2 * (_flip, _insert), *3 * (_replace,), _cut, _drop, _lines, _splice, _pack, _long)
