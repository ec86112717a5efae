"""The settings of a first run, chosen by the amount of text, and their commented TOML file.

Little text needs few subwords, a small recurrent model and much dropout (Sennrich & Zhang, 2019); much text
needs the Transformer in the sizes of Vaswani et al. (2017). The recurrent model of 512 units is that of
`recipes/multi30k-lstm.toml`, which was measured.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Literal

from regard.text.text_survey import TextSurvey

__all__ = ["RunPlan", "plan_run", "render_run"]

CHARACTERS_PER_TOKEN = {"CJK": 1.3}
OTHER_CHARACTERS_PER_TOKEN = 3.5
"""Average characters of a subword token, for estimates of lengths and numbers of tokens."""
NUM_BYTE_TOKENS = 256
MIN_EPOCHS = 3
LONG_EPOCH = 4_000
"""Number of steps of an epoch above which the model is validated more often than once per epoch."""


@dataclass(frozen=True)
class RunPlan:
    """The chosen settings.

    Attributes:
        kind: The architecture.
        vocab_size: The size of the subword vocabulary.
        width: The embedding and hidden size, or d_model.
        num_layers: The number of layers of encoder and decoder.
        dropout: The dropout probability.
        batch_size: The batch size, in sentences for `rnn` and in tokens for `transformer`.
        max_epochs: The maximum number of epochs.
        joint: Whether source and target share subwords and embeddings, since they have the same script.
        max_length: The maximum number of tokens of a training sentence.
        steps_per_epoch: The approximate number of steps of an epoch.
    """

    kind: Literal["rnn", "transformer"]
    vocab_size: int
    width: int
    num_layers: int
    dropout: float
    batch_size: int
    max_epochs: int
    joint: bool = False
    max_length: int = 100
    steps_per_epoch: int = 1


MODEL_CLASSES = (
    (5_000, 6_000, RunPlan("rnn", 2_000, 256, 1, 0.4, 32, 100)),
    (20_000, 8_000, RunPlan("rnn", 4_000, 384, 1, 0.4, 64, 60)),
    (100_000, 25_000, RunPlan("rnn", 8_000, 512, 2, 0.4, 64, 40)),
    (1_000_000, 50_000, RunPlan("transformer", 16_000, 512, 4, 0.2, 8_192, 30)),
    (math.inf, 100_000, RunPlan("transformer", 32_000, 512, 6, 0.1, 16_384, 10)),
)
"""The maximum number of pairs, the approximate number of training steps, and the settings."""


def plan_run(survey: TextSurvey, num_train: int) -> RunPlan:
    """Return the settings of a run.

    Args:
        survey: The survey of the text.
        num_train: The number of training pairs.
    """
    steps, plan = next((steps, plan) for pairs, steps, plan in MODEL_CLASSES if num_train <= pairs)
    sides = survey.source, survey.target
    rates = [CHARACTERS_PER_TOKEN.get(side.script, OTHER_CHARACTERS_PER_TOKEN) for side in sides]
    joint = survey.source.script == survey.target.script
    distinct = (sum if joint else max)(side.distinct_characters for side in sides)
    # SentencePiece needs a token for each character, and the bytes.
    needed = 500 * math.ceil((1.2 * distinct + NUM_BYTE_TOKENS) / 500)
    examples = float(num_train)
    if plan.kind == "transformer":
        tokens = max(side.characters / rate for side, rate in zip(sides, rates, strict=True))
        examples = tokens * num_train / max(1, survey.pairs)
    steps_per_epoch = max(1, math.ceil(examples / plan.batch_size))
    longest = max(side.long_characters / rate for side, rate in zip(sides, rates, strict=True))
    return replace(
        plan,
        vocab_size=max(plan.vocab_size, needed),
        joint=joint,
        max_length=min(400, max(100, 50 * math.ceil(longest / 50))),
        steps_per_epoch=steps_per_epoch,
        max_epochs=min(plan.max_epochs, max(MIN_EPOCHS, math.ceil(steps / steps_per_epoch))),
    )


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
    joint = "true" if plan.joint else "false"
    kind = 'kind = "sentencepiece", model_type = "unigram"'
    tokenizer = f"{{ {kind}, vocab_size = {plan.vocab_size}, joint = {joint} }}"
    reason = (
        "Both sides have the same script, so they share their subwords."
        if plan.joint
        else "The sides have different scripts, so each has its own subwords."
    )
    interval = f"every_steps = {LONG_EPOCH // 2}, " if plan.steps_per_epoch > LONG_EPOCH else ""
    model, unit, optimizer, schedule = _RNN if plan.kind == "rnn" else _TRANSFORMER
    sizes = {"width": plan.width, "layers": plan.num_layers, "ffn": 4 * plan.width}
    return _TEMPLATE.format(
        plan=plan,
        seen=seen,
        output_dir=_string(directories[0]),
        cache_dir=_string(directories[1]),
        train=files[0],
        valid=files[1],
        reason=reason,
        tokenizer=tokenizer,
        joint=joint,
        model=model % sizes,
        tied="all" if plan.joint else "decoder",
        unit=unit,
        optimizer=optimizer,
        schedule=schedule,
        interval=interval,
    )


_TEMPLATE = """\
# A first run, written by `regard init`. Relative paths start at the directory in which you type the command.
{seen}
# Every option has a description: `regard config`, or `regard config model.attention` for one table.

output_dir = {output_dir}  # the model
seed = 1
device = "auto"  # a GPU if there is one, else the CPU

[data]
cache_dir = {cache_dir}  # the preprocessed text
train = [{train}]
# The best model is the one with the lowest perplexity on this text, which is not trained on.
valid = {valid}
# Words are split into subword tokens, so that every word can be translated.
# {reason}
source_tokenizer = {tokenizer}
target_tokenizer = {tokenizer}
shared_vocab = {joint}
# Longer training sentences are dropped; the length is in subword tokens.
max_length = {plan.max_length}
# To bound the attention of each word, so that fewer words are repeated or dropped, use this line and the
# other `attention` below. The bounds come from word alignments of the training text.
# fertility = {{ kind = "guided" }}

[model]
{model}
attention = {{ kind = "soft", normalizer = "softmax" }}
# attention = {{ kind = "constrained", normalizer = "sparsemax" }}
dropout = {plan.dropout}
tie_embeddings = "{tied}"

[training]
batch_size = {plan.batch_size}
batch_unit = "{unit}"  # about {plan.steps_per_epoch:,} steps per epoch
optimizer = {optimizer}
lr_scheduler = {schedule}
label_smoothing = 0.1
precision = "float32"  # "bfloat16" is faster on recent GPUs and CPUs
validation = {{ {interval}metric = "perplexity", early_stopping_patience = 6 }}
max_epochs = {plan.max_epochs}  # training usually stops earlier, when validation no longer improves

[generation]
beam_size = 5
length_penalty = 1.0  # above 0, longer translations are preferred; `regard tune` chooses the value
"""
_RNN = (
    """\
kind = "rnn"  # an LSTM with attention, which needs less text than a Transformer
embedding_size = %(width)d
encoder = { num_layers = %(layers)d, hidden_size = %(width)d, direction = "bidirectional" }
decoder = { num_layers = %(layers)d, hidden_size = %(width)d }""",
    "sentences",
    '{ kind = "adam", learning_rate = 1e-3, max_grad_norm = 1.0 }',
    '{ kind = "plateau", factor = 0.5, patience = 1 }',
)
"""The model, the unit of a batch, the optimizer and the schedule of a recurrent model."""
_TRANSFORMER = (
    """\
kind = "transformer"
d_model = %(width)d
num_heads = 8
feed_forward = { ffn_size = %(ffn)d }
encoder = { num_layers = %(layers)d }
decoder = { num_layers = %(layers)d }
norm_position = \"pre\"""",
    "tokens",
    '{ kind = "adam", learning_rate = 7e-4, beta2 = 0.98, epsilon = 1e-9, max_grad_norm = 1.0 }',
    '{ kind = "inverse_sqrt", warmup_steps = 4000 }',
)
"""The same of a Transformer."""


def _string(text: str) -> str:
    """Return a TOML string; its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
