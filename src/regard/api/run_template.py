"""The settings of a first run, chosen by the amount of text, and their commented TOML file.

Little text needs few subwords, a small recurrent model and much dropout (Sennrich & Zhang, 2019); much text
needs the Transformer in the sizes of Vaswani et al. (2017). The recurrent model of 512 units is that of
`recipes/multi30k-lstm.toml`, which was measured.
"""

import json
import math
from dataclasses import dataclass
from typing import Literal

from regard.text.text_survey import SideSurvey, TextSurvey

__all__ = ["RunPlan", "plan_run", "render_run"]

CHARACTERS_PER_TOKEN = {"CJK": 1.3}
OTHER_CHARACTERS_PER_TOKEN = 3.5
"""Average characters of a subword token, for estimates of lengths and numbers of tokens."""
NUM_BYTE_TOKENS = 256
MIN_EPOCHS = 3
LONG_EPOCH = 4_000
"""Number of steps of an epoch above which the model is validated more often than once per epoch."""


@dataclass(frozen=True)
class _Size:
    """The sizes of a run for texts of up to `max_pairs` pairs.

    Attributes:
        width: The embedding and hidden size, or d_model.
        steps: The approximate number of training steps.
        max_epochs: The maximum number of epochs, even if `steps` would need more.
    """

    max_pairs: float
    kind: Literal["rnn", "transformer"]
    vocab_size: int
    width: int
    num_layers: int
    dropout: float
    batch_size: int
    steps: int
    max_epochs: int


MODEL_CLASSES = (
    _Size(5_000, "rnn", 2_000, 256, 1, 0.4, 32, 6_000, 100),
    _Size(20_000, "rnn", 4_000, 384, 1, 0.4, 64, 8_000, 60),
    _Size(100_000, "rnn", 8_000, 512, 2, 0.4, 64, 25_000, 40),
    _Size(1_000_000, "transformer", 16_000, 512, 4, 0.2, 8_192, 50_000, 30),
    _Size(math.inf, "transformer", 32_000, 512, 6, 0.1, 16_384, 100_000, 10),
)


@dataclass(frozen=True)
class RunPlan:
    """The chosen settings.

    Attributes:
        kind: The architecture.
        vocab_size: The size of the subword vocabulary.
        joint: Whether source and target share subwords and embeddings, since they have the same script.
        width: The embedding and hidden size, or d_model.
        num_layers: The number of layers of encoder and decoder.
        dropout: The dropout probability.
        batch_size: The batch size, in sentences for `rnn` and in tokens for `transformer`.
        max_length: The maximum number of tokens of a training sentence.
        steps_per_epoch: The approximate number of steps of an epoch.
        max_epochs: The maximum number of epochs.
    """

    kind: Literal["rnn", "transformer"]
    vocab_size: int
    joint: bool
    width: int
    num_layers: int
    dropout: float
    batch_size: int
    max_length: int
    steps_per_epoch: int
    max_epochs: int


def plan_run(survey: TextSurvey, num_train: int) -> RunPlan:
    """Return the settings of a run.

    Args:
        survey: The survey of the text.
        num_train: The number of training pairs.
    """
    size = next(size for size in MODEL_CLASSES if num_train <= size.max_pairs)
    sides = survey.source, survey.target
    joint = survey.source.script == survey.target.script
    distinct = (sum if joint else max)(side.distinct_characters for side in sides)
    # SentencePiece needs a token for each character, and the bytes.
    needed = 500 * math.ceil((1.2 * distinct + NUM_BYTE_TOKENS) / 500)
    if size.kind == "rnn":
        batches = num_train / size.batch_size
    else:
        tokens = max(side.characters / _characters_per_token(side) for side in sides)
        batches = tokens * num_train / max(1, survey.pairs) / size.batch_size
    steps_per_epoch = max(1, math.ceil(batches))
    longest = max(side.long_characters / _characters_per_token(side) for side in sides)
    return RunPlan(
        size.kind,
        max(size.vocab_size, needed),
        joint,
        size.width,
        size.num_layers,
        size.dropout,
        size.batch_size,
        min(400, max(100, 50 * math.ceil(longest / 50))),
        steps_per_epoch,
        min(size.max_epochs, max(MIN_EPOCHS, math.ceil(size.steps / steps_per_epoch))),
    )


def _characters_per_token(side: SideSurvey) -> float:
    return CHARACTERS_PER_TOKEN.get(side.script, OTHER_CHARACTERS_PER_TOKEN)


def _string(text: str) -> str:
    """Return a TOML string; its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def render_run(
    plan: RunPlan,
    train: tuple[str, str],
    valid: tuple[str, str],
    directories: tuple[str, str],
    lines: tuple[str, ...],
) -> str:
    """Return the TOML file of a run.

    Args:
        plan: The settings.
        train: The files of the training text.
        valid: The files of the validation text.
        directories: The model directory and that of the preprocessed text.
        lines: A description of the text for the first comment, one line each.
    """
    files = ["{{ source = {}, target = {} }}".format(*map(_string, pair)) for pair in (train, valid)]
    seen = "\n".join(f"# {line}" for line in lines)
    return f"""\
# A first run, written by `regard init`. Relative paths start at the directory in which you type the command.
{seen}
# Every option has a description: `regard config`, or `regard config model.attention` for one table.

output_dir = {_string(directories[0])}  # the model
seed = 1
device = "auto"  # a GPU if there is one, else the CPU

[data]
cache_dir = {_string(directories[1])}  # the preprocessed text
train = [{files[0]}]
# The best model is the one with the lowest perplexity on this text, which is not trained on.
valid = {files[1]}
{_tokenizers(plan)}
# Longer training sentences are dropped; the length is in subword tokens.
max_length = {plan.max_length}
# To bound the attention of each word, so that fewer words are repeated or dropped, use this line and the
# other `attention` below. The bounds come from word alignments of the training text.
# fertility = {{ kind = "guided" }}

{_MODELS[plan.kind](plan)}

[training]
{_training(plan)}

[generation]
beam_size = 5
length_penalty = 1.0  # above 0, longer translations are preferred; `regard tune` chooses the value
"""


def _tokenizers(plan: RunPlan) -> str:
    joint = "true" if plan.joint else "false"
    settings = f'kind = "sentencepiece", model_type = "unigram", vocab_size = {plan.vocab_size}'
    reason = (
        "Both sides have the same script, so they share their subwords."
        if plan.joint
        else "The sides have different scripts, so each has its own subwords."
    )
    return f"""\
# Words are split into subword tokens, so that every word can be translated.
# {reason}
source_tokenizer = {{ {settings}, joint = {joint} }}
target_tokenizer = {{ {settings}, joint = {joint} }}
shared_vocab = {joint}"""


_ATTENTION = """\
attention = { kind = "soft", normalizer = "softmax" }
# attention = { kind = "constrained", normalizer = "sparsemax" }"""


def _rnn(plan: RunPlan) -> str:
    return f"""\
[model]
kind = "rnn"  # an LSTM with attention, which needs less text than a Transformer
embedding_size = {plan.width}
encoder = {{ num_layers = {plan.num_layers}, hidden_size = {plan.width}, direction = "bidirectional" }}
decoder = {{ num_layers = {plan.num_layers}, hidden_size = {plan.width} }}
{_ATTENTION}
dropout = {plan.dropout}
tie_embeddings = "{"all" if plan.joint else "decoder"}\""""


def _transformer(plan: RunPlan) -> str:
    return f"""\
[model]
kind = "transformer"
d_model = {plan.width}
num_heads = 8
feed_forward = {{ ffn_size = {4 * plan.width} }}
encoder = {{ num_layers = {plan.num_layers} }}
decoder = {{ num_layers = {plan.num_layers} }}
norm_position = "pre"
{_ATTENTION}
dropout = {plan.dropout}
tie_embeddings = "{"all" if plan.joint else "decoder"}\""""


_MODELS = {"rnn": _rnn, "transformer": _transformer}


def _training(plan: RunPlan) -> str:
    steps = plan.steps_per_epoch
    if plan.kind == "rnn":
        unit = "sentences"
        optimizer = 'optimizer = { kind = "adam", learning_rate = 1e-3, max_grad_norm = 1.0 }'
        schedule = 'lr_scheduler = { kind = "plateau", factor = 0.5, patience = 1 }'
    else:
        unit = "tokens"
        optimizer = (
            'optimizer = { kind = "adam", learning_rate = 7e-4, beta2 = 0.98, epsilon = 1e-9, '
            "max_grad_norm = 1.0 }"
        )
        schedule = 'lr_scheduler = { kind = "inverse_sqrt", warmup_steps = 4000 }'
    interval = f"every_steps = {LONG_EPOCH // 2}, " if steps > LONG_EPOCH else ""
    return f"""\
batch_size = {plan.batch_size}
batch_unit = "{unit}"  # about {steps:,} steps per epoch
{optimizer}
{schedule}
label_smoothing = 0.1
precision = "float32"  # "bfloat16" is faster on recent GPUs and CPUs
validation = {{ {interval}metric = "perplexity", early_stopping_patience = 6 }}
max_epochs = {plan.max_epochs}  # training usually stops earlier, when validation no longer improves"""
