"""The registry of loss terms, each with its configuration class (`register_loss`)."""

from collections.abc import Mapping
from typing import Annotated, Any

from regard.registry import PartConfig, Registry
from regard.training.losses.base import LossTerm

__all__ = ["LOSSES", "LossConfig", "build_loss", "register_loss", "resumable_loss_options"]

LOSSES: Registry[type[LossTerm]] = Registry("loss term", default="", packages=["regard.training.losses"])
register_loss = LOSSES.register

LossConfig = Annotated[PartConfig, LOSSES]


def build_loss(config: LossConfig) -> LossTerm:
    """Build the term that a config describes.

    Raises:
        PluginError: if the kind is not registered.
    """
    return LOSSES.part_of(config)(config)


def resumable_loss_options(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the options of a run's loss terms that may change when it is resumed.

    Args:
        config: The config of the run as plain dictionaries.

    Returns:
        Keys of the form `training.losses[0].links`.
    """
    losses = config.get("training", {}).get("losses", ())
    parts = ((number, LOSSES.get(loss["kind"])) for number, loss in enumerate(losses))
    return frozenset(
        f"training.losses[{number}].{name}"
        for number, part in parts
        if part is not None
        for name in part.resumable_options
    )
