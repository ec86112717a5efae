"""Assignment of attention mechanisms to the layers of a non-recurrent decoder.

A mechanism with several contexts, or one that samples, is allowed only in the last layer. Tokens are scored
for each of its contexts, so all computation above it is repeated per context.
"""

from regard.attention.registry import AttentionConfig, mechanism
from regard.attention.soft import SoftAttentionConfig
from regard.errors import ConfigError

__all__ = ["check_mechanisms", "mechanisms_of", "refuse_two"]


def mechanisms_of(
    one: AttentionConfig, each: tuple[AttentionConfig, ...], layers: int, below: AttentionConfig
) -> tuple[AttentionConfig, ...]:
    """Return the mechanism of each layer, lowest layer first.

    Args:
        one: The mechanism of all layers, or of the last layer if it is allowed only there.
        each: One mechanism per layer. Empty: use `one`.
        layers: Number of layers.
        below: The mechanism of the lower layers if `one` is allowed only in the last layer.
    """
    if each:
        return each
    # A mechanism that is allowed only in the last layer is replaced by `below` in the others.
    return (*(below if _stands_last(one) else one,) * (layers - 1), one)


def refuse_two(one: AttentionConfig, each: tuple[AttentionConfig, ...]) -> None:
    """Check that `attention` and `attentions` are not both set.

    Raises:
        ValueError: if both are set.
    """
    if each and one != SoftAttentionConfig():
        raise ValueError("attention and attentions are both set: remove attention, or attentions")


def check_mechanisms(found: tuple[AttentionConfig, ...], layers: int) -> None:
    """Check that the mechanisms fit the layers of the decoder.

    Args:
        found: The mechanism of each layer.
        layers: Number of layers.

    Raises:
        ConfigError: if the number of mechanisms is wrong, or a mechanism is not allowed in its layer.
    """
    if len(found) != layers:
        raise ConfigError(
            f"model.attentions has {len(found)} mechanisms, but the decoder has {layers} layers: "
            "list one mechanism per layer"
        )
    for number, config in enumerate(found):
        if _stands_last(config) and number < layers - 1:
            raise ConfigError(
                f"model.attentions: {config.kind!r} is in layer {number}, but it is allowed only in the last "
                f"layer ({layers - 1}, counted from 0)"
            )
        if mechanism(config).enters:
            raise ConfigError(f"attention {config.kind!r} needs a recurrent decoder: set model.kind = 'rnn'")


def _stands_last(config: AttentionConfig) -> bool:
    kind = mechanism(config)
    return kind.observes or kind.objective != "marginal"
