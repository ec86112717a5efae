"""Fine-tuning of pre-trained layers: gradual unfreezing and a separate learning rate.

Layers are unfrozen from the output down, and pre-trained parameters have a lower learning rate, as in
Howard & Ruder (2018), Sections 3.2 and 3.3. The set of frozen parameters is a function of the number of the
step alone, so that a resumed run needs no further state.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from regard.config import configclass, option
from regard.errors import ConfigError
from regard.models.base import TranslationModel
from regard.types import Tensor

__all__ = ["LR_FACTOR_KEY", "FineTuningConfig", "UnfreezingSchedule", "parameter_groups"]

LR_FACTOR_KEY = "scale"
"""The key of an optimizer's parameter group that holds the factor of its learning rate."""


@configclass
class FineTuningConfig:
    """The options of fine-tuning the pre-trained layers of a model."""

    freeze_steps: int = option(
        default=0, help="Number of initial steps with frozen pre-trained layers.", ge=0, le=1_000_000_000
    )
    unfreeze_every: int = option(
        default=0,
        help="Interval in steps at which one more layer is unfrozen, from the output down to the "
        "embeddings, starting right after `freeze_steps`. 0 unfreezes all layers at once.",
        ge=0,
        le=1_000_000_000,
    )
    lr_factor: float = option(
        default=1.0, help="Factor of the learning rate of the pre-trained layers.", gt=0, le=1e6
    )


class UnfreezingSchedule:
    """The unfreezing schedule of a model.

    Args:
        model: The model with the pre-trained layers.
        config: The schedule, or None to freeze nothing.

    Raises:
        ConfigError: if there is a schedule but no layer is pre-trained, or all parameters would be frozen in
            the first step.
    """

    def __init__(self, model: TranslationModel, config: FineTuningConfig | None) -> None:
        """Find the pre-trained layers."""
        self.config, self.layers = config, _layers(model, config)
        frozen = {id(value) for value in self.frozen_parameters(1)}
        if frozen and all(id(p) in frozen for p in model.parameters() if p.requires_grad):
            raise ConfigError(
                "training.fine_tuning.freeze_steps: all parameters are pre-trained, so that the first steps "
                "would train none; set training.fine_tuning.freeze_steps = 0"
            )

    def frozen_parameters(self, step: int) -> list[nn.Parameter]:
        """Return the parameters that are frozen in a step, counted from 1."""
        if self.config is None:
            return []
        return [value for layer in self.layers[self._num_unfrozen(self.config, step) :] for value in layer]

    def _num_unfrozen(self, config: FineTuningConfig, step: int) -> int:
        """Return the number of unfrozen layers."""
        if step <= config.freeze_steps:
            return 0
        return (
            1 + (step - config.freeze_steps - 1) // config.unfreeze_every
            if config.unfreeze_every
            else len(self.layers)
        )

    @contextmanager
    def freeze_gradients(self, step: int, skip_computation: bool) -> Iterator[None]:
        """Return a context for the backward pass after which frozen parameters have no gradients.

        Args:
            step: The number of the step, from 1.
            skip_computation: Whether the gradients are not computed at all. With several processes they must
                be, as `DistributedDataParallel` waits for the gradients of all parameters.
        """
        frozen = self.frozen_parameters(step)
        trained = [value for value in frozen if value.requires_grad]
        if skip_computation:
            for value in trained:
                value.requires_grad_(False)
        try:
            yield
        finally:
            for value in trained:
                value.requires_grad_(True)
                value.grad = None


def parameter_groups(
    model: TranslationModel, config: FineTuningConfig | None, trained: Sequence[Tensor]
) -> list[dict[str, object]]:
    """Return the optimizer's parameter groups: new and pre-trained parameters, with their rate factors.

    Args:
        model: The model.
        config: The options of fine-tuning, or None.
        trained: The parameters that are trained.
    """
    own = {id(value) for layer in _layers(model, config) for value in layer}
    new, old = ([v for v in trained if (id(v) in own) is kind] for kind in (False, True))
    groups = ((new, 1.0), (old, 1.0 if config is None else config.lr_factor))
    return [{"params": values, LR_FACTOR_KEY: scale} for values, scale in groups if values]


def _layers(model: TranslationModel, config: FineTuningConfig | None) -> list[list[nn.Parameter]]:
    """Return the parameters of each pre-trained layer, from the output down."""
    if config is None:
        return []
    found = model.pretrained_layers()
    if not found:
        raise ConfigError(
            "training.fine_tuning: the model has no pre-trained layers; to start from a trained model, use "
            "training.init_from"
        )
    named = dict(model.named_parameters())
    return [[named[name] for name in layer] for layer in found]
