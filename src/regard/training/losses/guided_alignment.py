"""Guided alignment: attention is supervised by the links of a word aligner (Chen et al. 2016).

Let G_ts be 1/n if target token t is linked to n source tokens and s is one of them, else 0, and let a_ts be
the attention weight. The cross-entropy

    - lambda sum_t sum_s G_ts log a_ts

is added to the loss. Target tokens without links, EOS among them, do not contribute. Sparse transformations
give weights of or near zero, where the logarithm and its gradient are unbounded. The logarithm is therefore
replaced by its tangent at 0.01 for weights below 0.01. A source token whose weight is exactly zero under a
sparse transformation receives no gradient, because the transformation has none there.

The links are read from a file, or an aligner is trained once on the prepared text. Links that an aligner made
or that count words are cached in two files:

    PREPARED/NAME-TEXT.links     int32 [links, 2]: the source and target token of each link, row by row
    PREPARED/NAME-TEXT.edges     int64 [rows + 1]: the offset of the first link of each row

PREPARED is the directory of the prepared text, NAME the aligner or `words` with the checksum of the file of
links, and TEXT the fingerprint of the text, so that different texts use different files. Both files carry
checksums; see `regard.runs.serialization`.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from regard.config import configclass, option
from regard.data.batch import Batch
from regard.data.config import DataConfig
from regard.data.dataset import PreparedData
from regard.data.fertility import AlignerName, aligner_option
from regard.data.guided_alignment import LinkUnit, SplitLinks
from regard.errors import ConfigError, DataError
from regard.models.base import ForwardOutput, TranslationModel
from regard.runs.serialization import read_array, write_array
from regard.text.array_files import check_offsets
from regard.text.reading import file_digest
from regard.training.losses.base import LossTerm, TermBatch, register_loss
from regard.types import Float, Int, Tensor

_log = logging.getLogger(__name__)

_LINEAR_BELOW = 0.01  # the weight below which the tangent replaces the logarithm


@configclass
class GuidedAlignmentConfig:
    """The options of guided alignment."""

    kind: Literal["guided_alignment"] = option(
        default="guided_alignment",
        help="Supervision of attention by word alignments (Chen et al., 2016).",
    )
    links: str | None = option(
        default=None,
        help="File of word links (i-j, from 0) as written by `regard align`, one line per pair of all "
        "training corpora in their order. Default: the tokens of the training text are aligned.",
    )
    aligner: AlignerName = aligner_option()
    units: LinkUnit = option(
        default="words",
        help="Unit of the indices in the file: words of the text files, separated by spaces or tabs, whose "
        "links apply to each of their tokens; or tokens of the model.",
    )
    weight: float = option(
        default=1.0,
        help="Lambda: weight of the attention cross-entropy relative to the translation loss.",
        gt=0,
        le=1e6,
    )
    layer: int = option(
        default=-1,
        help="Index of the supervised layer among those that attend to the source, from 0. -1 is the last.",
        ge=-256,
        le=255,
    )
    heads: tuple[Annotated[int, Field(ge=-256, le=255)], ...] = option(
        default=(),
        help="Indices of the heads whose mean weights are supervised, from 0. -1 is the last. "
        "Default: all heads.",
    )


def guided_alignment_loss(
    outcome: ForwardOutput, links: Float[Tensor, "B T S"], config: GuidedAlignmentConfig
) -> Float[Tensor, ""]:
    """Return lambda times the cross-entropy of attention and links, summed over target tokens, in nats.

    Args:
        outcome: The result of teacher forcing with attention weights.
        links: G_ts; see `SplitLinks.target_distributions`.
        config: The layer, the heads and lambda.

    Raises:
        ConfigError: if the model has no such layer or head, or its attention weights have no gradient.
    """
    layers = len(outcome.cross_attentions)
    if not -layers <= config.layer < layers:
        raise ConfigError(
            f"guided_alignment.layer = {config.layer}: the layers that attend to the source are 0 to "
            f"{layers - 1}; -1 is the last"
        )
    weights = outcome.cross_attentions[config.layer]  # (B, T, H, S)
    if config.heads:
        heads = weights.shape[2]
        if not all(-heads <= head < heads for head in config.heads):
            raise ConfigError(
                f"guided_alignment.heads = {list(config.heads)}: the layer has heads 0 to {heads - 1}; -1 "
                "is the last"
            )
        weights = weights[:, :, list(config.heads)]
    if torch.is_grad_enabled() and not weights.requires_grad:
        raise ConfigError(
            "guided_alignment: the attention weights of the model have no gradient; remove this term of "
            "training.losses or use another attention mechanism"
        )
    mean = weights.mean(2)  # (B, T, S)
    # A sparse weight can be exactly 0, where the gradient of the logarithm is infinite. The tangent at
    # `_LINEAR_BELOW` has a finite gradient there.
    tangent = mean / _LINEAR_BELOW - 1 + math.log(_LINEAR_BELOW)
    # `clamp_min` keeps the unused branch finite, because 0 times an infinite gradient is NaN.
    log = torch.where(mean < _LINEAR_BELOW, tangent, mean.clamp_min(_LINEAR_BELOW).log())
    return -config.weight * (links * log).sum()


@register_loss("guided_alignment", GuidedAlignmentConfig)
class GuidedAlignment(LossTerm):
    """Adds the cross-entropy of attention and links."""

    output_attentions = True
    resumable_options = ("links",)

    links: SplitLinks | None = None

    @property
    def supervised_attention(self) -> tuple[int, tuple[int, ...]]:
        """The layer and the heads of the config."""
        return self.config.layer, self.config.heads

    def prepare(self, prepared: PreparedData, config: DataConfig) -> None:
        """Read the links of the training split, or align it if there is no file.

        Raises:
            DataError: if the file of links does not match the corpora (see `SplitLinks.read`), or one side of
                a sentence pair to align is empty.
        """
        split = prepared.split("train")
        if self.config.links is not None:
            self.links = self._read_links(prepared, config)
            return
        links = _align_training_split(prepared, self.config.aligner)
        has_prefix = [corpus.source_prefix is not None for corpus in config.train]
        # A source prefix is the first token of its row. It has no translation, so its links are removed.
        prefixed_rows = np.repeat(has_prefix, [int(corpus["kept"]) for corpus in split.corpora])
        mask = (links.pairs[:, 0] > 0) | ~np.repeat(prefixed_rows, np.diff(links.offsets))
        ends = np.concatenate([[0], np.cumsum(mask)])[links.offsets]
        self.links = SplitLinks(links.pairs[mask], ends)

    def _read_links(self, prepared: PreparedData, config: DataConfig) -> SplitLinks:
        """Read the file of links. Links of words are cached, as their text must be tokenized again."""
        assert self.config.links is not None
        read = partial(
            SplitLinks.read, self.config.links, prepared.split("train"), config.train, self.config.units
        )
        if self.config.units == "tokens":
            return read()
        digest = file_digest(Path(self.config.links))
        return _cached_links(prepared, f"words-{digest[:16]}-{prepared.fingerprint[:16]}", read)

    def identity(self) -> dict[str, Any]:
        """Return the checksum of the file of links."""
        return {} if self.config.links is None else {"guided links": file_digest(Path(self.config.links))}

    def prepare_batch(
        self, model: TranslationModel, batch: Batch, rows: Int[Tensor, "B"], seed: int
    ) -> TermBatch:
        """Return the links of the sentences."""
        assert self.links is not None and batch.target is not None
        tokens, device = batch.source.tokens, batch.source.tokens.device
        lengths = batch.target.tokens.shape[1], tokens.shape[1]
        return TermBatch(values=self.links.target_distributions(rows.tolist(), *lengths).to(device))

    def add(
        self, total: Float[Tensor, ""], batch: Batch, outcome: ForwardOutput, own: TermBatch
    ) -> Float[Tensor, ""]:
        """Return the loss with the cross-entropy."""
        return total + guided_alignment_loss(outcome, own.values, self.config)


def _align_training_split(prepared: PreparedData, aligner: str) -> SplitLinks:
    """Return the token links of the training split: both directions, symmetrized by grow-diag-final-and."""

    def align() -> SplitLinks:
        from regard.alignment import TrainingSetup, train_both
        from regard.alignment.base import default_config

        _log.info("aligning %s to guide attention", prepared.directory)
        corpus = prepared.alignment_corpus()
        link_table = train_both(corpus, default_config(aligner), TrainingSetup(seed=1)).align(corpus)
        return SplitLinks(np.stack([link_table.source, link_table.target], axis=1), link_table.offsets)

    return _cached_links(prepared, f"{aligner}-{prepared.fingerprint[:16]}", align)


def _cached_links(prepared: PreparedData, name: str, make: Callable[[], SplitLinks]) -> SplitLinks:
    """Return the links in the two files of a name next to the prepared text; make them if they are absent."""
    paths = [prepared.directory / f"{name}.{kind}" for kind in ("links", "edges")]
    if not all(path.exists() for path in paths):
        new_links = make()
        write_array(paths[0], new_links.pairs.astype(np.int32))
        write_array(paths[1], new_links.offsets.astype(np.int64))
    split = prepared.split("train")
    # Reading the files even when they were just written means that cached links are always checked.
    pairs, offsets = read_array(paths[0], "int32", None, 2), read_array(paths[1], "int64", len(split) + 1)
    check_offsets(str(paths[1]), offsets, len(split), len(pairs))
    for side, lengths in enumerate(split.lengths):
        most = np.repeat(lengths, np.diff(offsets))
        if ((pairs[:, side] < 0) | (pairs[:, side] >= most)).any():
            raise DataError(
                f"{paths[0]}: some links refer to tokens that {prepared.directory} does not contain; remove "
                "the file and run the command again"
            )
    return SplitLinks(pairs, offsets)
