"""A pre-trained encoder of Hugging Face's library in the place of a Transformer's own."""

from pathlib import Path
from typing import Any

from torch import nn

from regard.data.batch import Sequences
from regard.data.text import TextPair
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.layers.linear import Linear
from regard.models.hf.bridge import Session, asking, own_attention
from regard.models.hf.config import PretrainedConfig
from regard.models.hf.folder import check_fit, kept_folders, open_encoder
from regard.models.hf.layers import layers_from_the_top
from regard.models.hf.layout import Layout, pretrained_side
from regard.models.hf.sizes import multiply_adds, positions
from regard.models.transformer import Reader, TransformerModel
from regard.types import Float, Int, Tensor

__all__ = ["HfEncoder", "build_pretrained"]


class HfEncoder(Reader):
    """The encoder, and a map from its width to the decoder's where they differ.

    Args:
        model: The library's encoder.
        tokenizer: The source tokenizer.
        width: That of the decoder.
    """

    def __init__(self, model: Any, tokenizer: PretrainedTokenizer, width: int) -> None:
        """Put the parts together."""
        super().__init__()
        own_attention(model)
        self.model, self.layout = model, Layout.of(tokenizer)
        own = model.config.hidden_size
        self.bridge = nn.Identity() if own == width else Linear(own, width)

    @property
    def longest(self) -> int | None:
        """As many as it has positions; see `Reader.longest`."""
        found = positions(self.model)
        return None if found is None else found - max(0, self.layout.count - 1)

    def forward(self, source: Sequences, look: bool) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Its states in our order; see `Reader.forward`."""
        session = Session([], source.mask, look="all" if look else "nothing")
        with asking(session):
            states = self.layout.states(self.model, source)
        return self.bridge(states), [self.layout.maps(source, weights) for weights in session.seen]

    def multiply_adds(self, lengths: Int[Tensor, "B"]) -> int:
        """The encoder's, and the map's; see `Reader.multiply_adds`."""
        bridge = sum(p.numel() for p in self.bridge.parameters() if p.dim() > 1)
        return multiply_adds(self.model, lengths, causal=False) + int(lengths.sum()) * bridge

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """The encoder's; see `Reader.pretrained_layers`."""
        return layers_from_the_top(self, [self.model], ["bridge."])


def build_pretrained(config: PretrainedConfig, text: TextPair, kept: Path | None = None) -> TransformerModel:
    """The model that a config describes.

    Args:
        config: The encoder's folder, and the decoder.
        text: Its tokenizers; the source's is the encoder's.
        kept: The model folder that has the encoder's configuration; none: its weights are read.

    Raises:
        CheckpointError: if the folder is missing or broken.
        ConfigError: if the tokenizer does not fit, or parts of the decoder do not.
    """
    source = pretrained_side(text.source, "source")
    model = open_encoder(kept_folders(config.folders, kept)["encoder"], weights=kept is None)
    check_fit(source, model.get_input_embeddings().weight.shape[0], model.config, config.encoder)
    reader = HfEncoder(model, source, config.width)
    sizes = (len(side.vocabulary) for side in (text.source, text.target))
    return TransformerModel(config.transformer, *sizes, reader=reader)
