"""The `regard` system of `compare.py`: the models of the comparison, trained and decoded by this project.

`train` writes an ordinary model directory, which `regard export` can read.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from measure import CONV, TRANSFORMER, Clocked, arguments, report, write_translations
from multi30k import SPECIALS as NEUTRAL
from multi30k import Batch as TokenBatch
from multi30k import Multi30k
from safetensors.torch import load_model

from regard import __version__
from regard.config.results import perplexity
from regard.data.batch import Batch, BatchConfig, collate
from regard.generation.beam import beam_search
from regard.generation.blocks import map_batches
from regard.generation.config import GenerationConfig
from regard.kernels.matmul import limit_kernel_caches
from regard.models.base import Precision, TranslationModel
from regard.models.conv.model import ConvConfig, ConvModel, ConvSideConfig
from regard.models.rnn.config import RnnConfig
from regard.models.rnn.model import RnnModel
from regard.models.transformer.model import (
    FeedForwardConfig,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    TransformerModel,
)
from regard.runs.serialization import write_tensors
from regard.runs.weights import MODEL_FILE, named_weights
from regard.text.vocabulary import EOS, SPECIAL_TOKENS, Vocabulary
from regard.training.checkpoint import TrainingState
from regard.training.config import TrainingConfig
from regard.training.optimizer import AdamConfig, ConstantConfig, LRScheduler, build_optimizer
from regard.training.progress import TrainingProgress
from regard.training.run_context import SINGLE_PROCESS, ProcessGroup, autocast
from regard.training.train_step import TrainStep

PRECISIONS: dict[str, Precision] = {"float32": "float32", "bf16": "bfloat16", "bfloat16": "bfloat16"}


def ours(ids: list[int]) -> list[int]:
    """Return our ids for ids of the comparison: specials are equal, words are shifted by the sink."""
    return [number if number < EOS + 1 else number + 1 for number in ids]


def batch(tokens: TokenBatch, with_target: bool = True) -> Batch:
    """Return a batch of the comparison as a `Batch` of this project."""
    targets = [[*ours(sentence), EOS] for sentence in tokens.target] if with_target else None
    return collate([ours(sentence) for sentence in tokens.source], targets, tokens.indices)


class PreparedBatches:
    """A training split of prepared batches, each addressed by its number."""

    def __init__(self, made: Sequence[Batch]) -> None:
        """Store the batches."""
        self.made = made
        tokens = np.array([one.target_tokens for one in made])
        # The training step sums the target tokens over the rows of a step.
        self.lengths = tokens, tokens

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return one batch per step, in the given order."""
        return [np.array([number]) for number in range(len(self.made))]

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """Return the batch with this number."""
        return self.made[int(rows[0])]


SEARCH = GenerationConfig(length_penalty=0.0, max_length_ratio=1.5, max_length_offset=1)


def transformer(dropout: float) -> TransformerConfig:
    """Return the configuration of the Transformer of the comparison."""
    sizes = TRANSFORMER
    return TransformerConfig(
        d_model=sizes.width,
        num_heads=sizes.heads,
        feed_forward=FeedForwardConfig(ffn_size=sizes.feed_forward, dropout=dropout),
        encoder=TransformerEncoderConfig(num_layers=sizes.layers),
        decoder=TransformerDecoderConfig(num_layers=sizes.layers),
        norm_position="pre",
        dropout=dropout,
        tie_embeddings="none",
    )


def conv(dropout: float) -> ConvConfig:
    """Return the configuration of the convolutional model of the comparison."""
    side = ConvSideConfig(num_layers=CONV.layers, hidden_size=CONV.width, kernel_size=CONV.kernel)
    return ConvConfig(embedding_size=CONV.width, encoder=side, decoder=side, dropout=dropout)


def sizes(data: Multi30k) -> tuple[int, int]:
    """Return the source and target vocabulary sizes, including the sink."""
    return len(data.source_words) + 1, len(data.target_words) + 1


def build(data: Multi30k, dropout: float) -> RnnModel:
    """Return the recurrent model of the comparison."""
    return RnnModel(RnnConfig(dropout=dropout, embedding_dropout=0.0), *sizes(data))


Compared = RnnModel | TransformerModel | ConvModel


def model_of(kind: str, data: Multi30k, dropout: float) -> Compared:
    """Return the model of the comparison with this architecture."""
    if kind == "transformer":
        return TransformerModel(transformer(dropout), *sizes(data))
    if kind == "conv":
        return ConvModel(conv(dropout), *sizes(data))
    return build(data, dropout)


def save_model(model: Compared, data: Multi30k, directory: Path) -> None:
    """Write a model directory."""
    # Imported here because these modules would count in the peak memory of the measurement.
    from regard.data.config import DataConfig
    from regard.data.text import TextProcessor, TextSide
    from regard.runs.description import write_config
    from regard.runs.fertility_predictor import save_text_processing
    from regard.text.corpus import CorpusConfig
    from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
    from regard.training.run_config import RunConfig

    directory.mkdir(parents=True, exist_ok=True)
    source, target = (
        TextSide(WordsTokenizer(WordsConfig()), Vocabulary((*SPECIAL_TOKENS, *words[len(NEUTRAL) :])))
        for words in (data.source_words, data.target_words)
    )
    corpus = CorpusConfig(source="train.de", target="train.en")  # a name without a file
    save_text_processing(TextProcessor(source, target), directory)
    write_config(
        RunConfig(data=DataConfig(train=(corpus,), valid=corpus), model=model.config, generation=SEARCH),
        directory,
    )
    write_tensors(directory / MODEL_FILE, named_weights(model), {})


def make_train_step(
    model: TranslationModel, made: Sequence[Batch], config: TrainingConfig, processes: ProcessGroup, seed: int
) -> TrainStep:
    """Return the training step of this project for prepared batches."""
    state = TrainingState(
        model,
        build_optimizer(config.optimizer, list(model.parameters())),
        LRScheduler(config.lr_scheduler),
        TrainingProgress(),
    )
    return TrainStep(state, PreparedBatches(made), config, processes, seed)


def train(args: argparse.Namespace) -> None:
    data, precision = Multi30k(args.data), PRECISIONS[args.precision]
    model = model_of(args.kind, data, args.dropout)
    attends = args.kind == "transformer"
    config = TrainingConfig(
        optimizer=AdamConfig(
            learning_rate=args.rate,
            max_grad_norm=args.clip,
            beta2=TRANSFORMER.beta2 if attends else AdamConfig().beta2,
        ),
        lr_scheduler=ConstantConfig(),
        precision=precision,
        label_smoothing=TRANSFORMER.label_smoothing if attends else 0.0,
    )
    made = [batch(raw_batch) for raw_batch in data.train_batches(args.warmup + args.updates)]
    step = make_train_step(model.train(), made, config, SINGLE_PROCESS, args.seed)
    clock = Clocked(range(len(made)), args.warmup)
    for number in clock:
        step([np.array([number])])
    if args.model:
        save_model(model, data, args.model)
    model.eval()
    loss, tokens = 0.0, 0
    with torch.inference_mode():
        for raw_batch in data.sorted_batches("valid", 64):
            one = batch(raw_batch)
            with autocast(torch.device("cpu"), precision):
                loss -= float(model(one).log_likelihood.sum())
            tokens += one.target_tokens
    timed = sum(one.target_tokens for one in made[args.warmup :])
    report(
        system="regard",
        mode="train",
        version=__version__,
        torch=torch.__version__,
        precision=args.precision,
        tokens_per_s=timed / clock.seconds,
        peak_gib=clock.peak,
        valid_ppl=perplexity(loss / tokens),
        seconds=clock.seconds,
        cpus=clock.cpus,
        updates=args.updates,
        tokens=timed,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def decode(args: argparse.Namespace) -> None:
    data = Multi30k(args.data)
    model = model_of(args.kind, data, 0.0)
    load_model(model, str(args.model / MODEL_FILE))
    bfloat16 = PRECISIONS[args.precision] == "bfloat16"
    model.eval().to(torch.bfloat16 if bfloat16 else torch.float32)
    config = replace(SEARCH, beam_size=args.beam)
    raw_batches = list(data.sorted_batches("test", args.batch, args.sentences))
    made = [batch(one, with_target=False) for one in raw_batches]
    beam_search(model, made[0].source, config)  # warm-up
    translations: dict[int, list[str]] = {}
    clock = Clocked([made])
    for batches in clock:
        ways = map_batches(model, batches, lambda one: beam_search(model, one.source, config))
        for one, searched in zip(batches, ways, strict=True):
            for row, found in zip(one.rows.tolist(), searched, strict=True):
                ids = (number if number < EOS + 1 else number - 1 for number in found[0].tokens)
                translations[row] = [data.target_words[number] for number in ids]
    if args.output:
        write_translations(args.output, translations)
    report(
        system="regard",
        mode="decode",
        version=__version__,
        torch=torch.__version__,
        precision=args.precision,
        sentences_per_s=len(translations) / clock.seconds,
        peak_gib=clock.peak,
        seconds=clock.seconds,
        cpus=clock.cpus,
        sentences=len(translations),
        words=sum(map(len, translations.values())),
    )


if __name__ == "__main__":
    chosen = arguments(__doc__)
    limit_kernel_caches()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    {"train": train, "decode": decode}[chosen.mode](chosen)
