"""A pre-trained Hugging Face encoder as the encoder of a Transformer."""

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
    """The encoder, with a linear projection to the decoder's dimension if the dimensions differ.

    Args:
        model: The encoder of transformers.
        tokenizer: The source tokenizer.
        width: The decoder's dimension.
    """

    def __init__(self, model: Any, tokenizer: PretrainedTokenizer, width: int) -> None:
        """Combine the parts."""
        super().__init__()
        own_attention(model)
        self.model, self.layout = model, Layout.of(tokenizer)
        own = model.config.hidden_size
        # The projection is new, so it is not among the pre-trained layers.
        self.bridge = nn.Identity() if own == width else Linear(own, width)

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `Reader.longest`."""
        found = positions(self.model)
        # `longest` includes one sink or end symbol; the other special symbols take positions too.
        return None if found is None else found - max(0, self.layout.count - 1)

    def forward(self, source: Sequences, look: bool) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states in the order of our tokens; see `Reader.forward`."""
        session = Session([], source.mask, look="all" if look else "nothing")
        with asking(session):
            states = self.layout.states(self.model, source)
        return self.bridge(states), [self.layout.maps(source, weights) for weights in session.seen]

    def multiply_adds(self, lengths: Int[Tensor, "B"]) -> int:
        """Return the multiply-adds of the encoder and the projection; see `Reader.multiply_adds`."""
        bridge = sum(p.numel() for p in self.bridge.parameters() if p.dim() > 1)
        return multiply_adds(self.model, lengths, causal=False) + int(lengths.sum()) * bridge

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the encoder's parameters by layer; see `Reader.pretrained_layers`."""
        return layers_from_the_top(self, [self.model], ["bridge."])


def build_pretrained(config: PretrainedConfig, text: TextPair, kept: Path | None = None) -> TransformerModel:
    """Build the model that a config describes.

    Args:
        config: The encoder's directory, and the decoder.
        text: The tokenizers; the source tokenizer is the encoder's.
        kept: A model directory that contains the encoder's configuration. Default: None, which loads the
            encoder's weights.

    Raises:
        CheckpointError: if the directory is missing or broken.
        ConfigError: if the tokenizer does not match, or if parts of the decoder are incompatible.
    """
    source = pretrained_side(text.source, "source")
    model = open_encoder(kept_folders(config.folders, kept)["encoder"], weights=kept is None)
    check_fit(source, model.get_input_embeddings().weight.shape[0], model.config, config.encoder)
    reader = HfEncoder(model, source, config.width)
    sizes = (len(side.vocabulary) for side in (text.source, text.target))
    return TransformerModel(config.transformer, *sizes, reader=reader)
