"""Which mechanism each layer of a decoder without recurrence attends to the source with.

A mechanism of several contexts, or one that draws, stands in the last layer alone: tokens are scored for each
of its contexts, and everything above it is made for each of them.
"""

from regard.attention.registry import AttentionConfig, mechanism
from regard.attention.soft import SoftAttentionConfig
from regard.errors import ConfigError

__all__ = ["check_mechanisms", "mechanisms_of", "refuse_two"]


def mechanisms_of(
    one: AttentionConfig, each: tuple[AttentionConfig, ...], layers: int, below: AttentionConfig
) -> tuple[AttentionConfig, ...]:
    """The mechanism of each layer, from the lowest.

    Args:
        one: The mechanism of all layers, or of the last where it can stand there alone.
        each: One for each layer; none: `one`.
        layers: How many layers there are.
        below: What stands below a mechanism of the last layer.
    """
    if each:
        return each
    return (*(below if _stands_last(one) else one,) * (layers - 1), one)


def refuse_two(one: AttentionConfig, each: tuple[AttentionConfig, ...]) -> None:
    """Refuse a mechanism of all layers beside one for each.

    Raises:
        ValueError: if both are set.
    """
    if each and one != SoftAttentionConfig():
        raise ValueError("`attentions` names the mechanism of each layer: leave `attention` out")


def check_mechanisms(found: tuple[AttentionConfig, ...], layers: int) -> None:
    """Refuse mechanisms that do not fit the layers.

    Args:
        found: The mechanism of each layer.
        layers: How many layers there are.

    Raises:
        ConfigError: names the option, what came and where.
    """
    if len(found) != layers:
        raise ConfigError(f"model.attentions has {len(found)} mechanisms for {layers} layers of the decoder")
    for number, config in enumerate(found):
        if _stands_last(config) and number < layers - 1:
            raise ConfigError(
                f"model.attentions: {config.kind!r} stands in the last layer alone ({layers - 1}, counted "
                f"from 0); it is in layer {number}"
            )
        if mechanism(config).enters:
            raise ConfigError(
                f"attention {config.kind!r} needs a decoder with recurrence: model.kind = 'lstm'"
            )


def _stands_last(config: AttentionConfig) -> bool:
    kind = mechanism(config)
    return kind.observes or kind.objective != "marginal"
