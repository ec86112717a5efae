"""How pre-trained parameters are trained further: frozen at first, then unfrozen by layer, at another rate.

Gradual unfreezing, from the output down, and a lower rate for what is pre-trained, are those of Howard &
Ruder (2018), Sections 3.2 and 3.3. What is frozen in an update is a function of the update's number alone, so
that a run that goes on freezes what it would have frozen.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from regard.config import config, option
from regard.errors import ConfigError
from regard.models.base import TranslationModel
from regard.types import Tensor

__all__ = ["SCALE", "FinetuneConfig", "Thaw", "parameter_groups"]

SCALE = "scale"
"""The key of an optimizer's group that says what the rate is multiplied by."""


@config
class FinetuneConfig:
    """How the pre-trained part of a model is trained."""

    frozen: int = option(
        default=0, help="Updates in which the pre-trained part stays as it is.", ge=0, le=1_000_000_000
    )
    every: int = option(
        default=0,
        help="Then one more layer is trained every so many updates, from the output down; 0: all at once.",
        ge=0,
        le=1_000_000_000,
    )
    rate: float = option(
        default=1.0, help="What the learning rate is multiplied by in the pre-trained part.", gt=0, le=1e6
    )


class Thaw:
    """Which parameters are frozen when.

    Args:
        model: Its pre-trained layers are found.
        config: The schedule; none: nothing is frozen.

    Raises:
        ConfigError: if there is a schedule and nothing is pre-trained, or nothing is trained at first.
    """

    def __init__(self, model: TranslationModel, config: FinetuneConfig | None) -> None:
        """Find the parameters."""
        self.config, self.layers = config, _layers(model, config)
        closed = {id(value) for value in self.closed(1)}
        if closed and all(id(p) in closed for p in model.parameters() if p.requires_grad):
            raise ConfigError(
                "finetune.frozen: all of the model is pre-trained, and nothing would be trained at first"
            )

    def closed(self, update: int) -> list[nn.Parameter]:
        """Those that stay as they are in an update, counted from 1."""
        if self.config is None:
            return []
        return [value for layer in self.layers[self._opened(self.config, update) :] for value in layer]

    def _opened(self, config: FinetuneConfig, update: int) -> int:
        """How many layers are trained."""
        if update <= config.frozen:
            return 0
        return 1 + (update - config.frozen - 1) // config.every if config.every else len(self.layers)

    @contextmanager
    def frozen(self, update: int, spared: bool) -> Iterator[None]:
        """A context after which what is frozen in an update has no gradients.

        Args:
            update: Its number, from 1.
            spared: Whether they need not be computed either: several processes wait for each other's.
        """
        closed = self.closed(update)
        trained = [value for value in closed if value.requires_grad]
        if spared:
            for value in trained:
                value.requires_grad_(False)
        try:
            yield
        finally:
            for value in trained:
                value.requires_grad_(True)
                value.grad = None


def parameter_groups(
    model: TranslationModel, config: FinetuneConfig | None, trained: Sequence[Tensor]
) -> list[dict[str, object]]:
    """The groups of an optimizer: what is new, and what is pre-trained with what scales its rate.

    Args:
        model: The model.
        config: How it is trained.
        trained: The parameters that are trained at all.
    """
    own = {id(value) for layer in _layers(model, config) for value in layer}
    new, old = ([v for v in trained if (id(v) in own) is kind] for kind in (False, True))
    groups = ((new, 1.0), (old, 1.0 if config is None else config.rate))
    return [{"params": values, SCALE: scale} for values, scale in groups if values]


def _layers(model: TranslationModel, config: FinetuneConfig | None) -> list[list[nn.Parameter]]:
    """The pre-trained layers, from the output down."""
    if config is None:
        return []
    found = model.pretrained_layers()
    if not found:
        raise ConfigError("finetune: no part of the model is pre-trained; training.start takes whole models")
    named = dict(model.named_parameters())
    return [[named[name] for name in layer] for layer in found]
