"""The commands that write files, with their inputs, and the small corpus and models on which they run."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """A command line that writes files.

    Attributes:
        name: The name in the table of attacks.
        line: The arguments.
        outputs: The files and directories that the command writes. None may ever be half-written.
        whole: Whether `outputs` are at every moment either the old or the new ones. If False, this holds only
            after the same command has been run again.
        once: Whether the command refuses to run again once it has finished.
        needs: The directories and files of the base that the command reads or replaces.
    """

    name: str
    line: str
    outputs: tuple[str, ...]
    whole: bool = True
    once: bool = False
    needs: tuple[str, ...] = field(default=("corpus",))


CONFIG = """
num_threads = 1
device = "cpu"
[data]
cache_dir = "{data}"
min_frequency = {min_frequency}
train = [{{ source = "corpus/train.de", target = "corpus/train.en" }}]
valid = {{ source = "corpus/valid.de", target = "corpus/valid.en" }}
{more}
[training]
batch_size = 16
max_epochs = 2
logging = {{ every_steps = 2 }}
checkpoint = {{ keep_last_epochs = 2, every_steps = 3 }}
"""
SIDE = "{ num_layers = 1, hidden_size = 4 }"
SMALL = f"embedding_size = 4\nencoder = {SIDE}\ndecoder = {SIDE}\n"
TRANSFORMER = """
[model]
kind = "transformer"
d_model = 8
num_heads = 2
encoder = { num_layers = 1 }
decoder = { num_layers = 1 }
feed_forward = { ffn_size = 8 }
"""
CONFIGS = {
    "lstm": "[model]\n" + SMALL,
    "fertile": 'fertility = { kind = "predicted", hidden_size = 4, max_epochs = 1, patience = 1 }\n'
    + "[model]\n"
    + SMALL
    + 'attention = { kind = "constrained" }\n',
    "guided": "[model]\n" + SMALL + '[[training.losses]]\nkind = "guided_alignment"\n',
    "phrase": '[model]\nkind = "phrase"\naligner = { kind = "ibm1" }\nmax_phrase_length = 3\n'
    "lm_order = 2\nstack_size = 5\n" + "tuning = { num_rounds = 1, nbest_size = 5, num_restarts = 0 }\n",
    "transformer": TRANSFORMER,
}
PRETRAIN = """
num_threads = 1
device = "cpu"
text = { train = ["corpus/train.de"], valid = "corpus/valid.de", vocab_size = 300 }
model = { num_layers = 1, d_model = 8, num_heads = 2, ffn_size = 8 }
[training]
batch_size = 16
max_epochs = 1
"""
TABLE = "".join(
    f"{word}\tN;{case}\t{word}{ending}\n"
    for word in ("hund", "katze", "haus", "baum", "vogel", "fisch")
    for case, ending in (("GEN", "es"), ("DAT", "e"), ("PL", "en"))
)

BASE = (
    "phrasebook corpus --num-train 60 --num-valid 8 --num-test 6",
    "prepare lstm.toml data.min_frequency=2",
    "train lstm.toml --output-dir model",
    "train transformer.toml --output-dir transformer",
    "export transformer -o exported",
    "align corpus/train.de corpus/train.en --model ibm1 --save-aligner aligner -o links.txt --num-threads 1",
    "init corpus/train.de corpus/train.en -o own.toml --json i.json",
    "lm corpus/train.en --order 2 -o old.arpa",
    "translate model --input corpus/test.de --output out.txt --num-threads 1",
    "report model --test corpus/test.de corpus/test.en -o page.html",
)
"""The commands that create the base, in order."""

_INIT = ("own.toml", "own-text", "i.json")
_TEST = "corpus/test.de corpus/test.en"
COMMANDS = (
    Command(
        "prepare again",
        "prepare lstm.toml data.cache_dir=prepared data.min_frequency=1",
        ("prepared",),
        needs=("corpus", "prepared"),
    ),
    Command("lm", "lm corpus/train.en --order 3 -o old.arpa", ("old.arpa",), needs=("corpus", "old.arpa")),
    Command(
        "align",
        "align corpus/train.de corpus/train.en --model ibm2 --save-aligner aligner -o links.txt --json "
        "pass.json "
        "--num-threads 1",
        ("aligner", "links.txt", "pass.json"),
        needs=("corpus", "aligner", "links.txt"),
    ),
    Command(
        "train",
        "train lstm.toml --output-dir trained",
        ("trained",),
        whole=False,
        needs=("corpus", "prepared"),
    ),
    Command("train, fertilities", "train fertile.toml --output-dir trained", ("trained",), whole=False),
    Command("train, guided", "train guided.toml --output-dir trained", ("trained",), whole=False),
    Command("train, phrases", "train phrase.toml --output-dir trained", ("trained",), whole=False),
    Command("pretrain", "pretrain pretrain.toml --output-dir pretrained", ("pretrained",), whole=False),
    Command("average", "average mean model --last-epochs 2", ("mean",), once=True, needs=("model",)),
    Command(
        "export",
        "export transformer -o exported --overwrite --quantization int8",
        ("exported",),
        needs=("transformer", "exported"),
    ),
    Command(
        "translate",
        "translate model --input corpus/test.de --output out.txt --links-output links.txt "
        "--attention-output a.jsonl "
        "--beam-size 2 --num-threads 1",
        ("out.txt", "links.txt", "a.jsonl"),
        needs=("corpus", "model", "out.txt", "links.txt"),
    ),
    Command(
        "report",
        f"report model --test {_TEST} -o page.html",
        ("page.html",),
        needs=("corpus", "model", "page.html"),
    ),
    Command(
        "init",
        "init corpus/train.de corpus/train.en -o own.toml --json i.json",
        _INIT,
        needs=("corpus", "own.toml", "own-text", "i.json"),
    ),
)


def write_inputs(root: Path) -> None:
    """Write the inputs that no command creates: config files and a table of inflections."""
    for name, more in CONFIGS.items():
        data = "prepared" if name in ("lstm", "guided") else f"prepared-{name}"
        text = CONFIG.format(data=data, min_frequency=1 if name != "lstm" else 2, more=more)
        (root / f"{name}.toml").write_text(text, encoding="utf-8")
    (root / "pretrain.toml").write_text(PRETRAIN, encoding="utf-8")
    (root / "table.tsv").write_text(TABLE, encoding="utf-8")
