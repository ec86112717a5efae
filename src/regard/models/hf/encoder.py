"""A pre-trained Hugging Face encoder as the encoder of a Transformer."""

from pathlib import Path
from typing import Any

from torch import nn

from regard.data.batch import PaddedSequences
from regard.data.text import TextProcessor
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.layers.linear import Linear
from regard.layers.parameters import matrix_entries
from regard.models.hf.bridge import AttentionSession, use_regard_attention, use_session
from regard.models.hf.config import PretrainedConfig
from regard.models.hf.folder import check_tokenizer_fit, config_dirs, copy_configs, load_encoder
from regard.models.hf.layers import layer_groups
from regard.models.hf.layout import InputLayout, pretrained_side
from regard.models.hf.sizes import count_multiply_adds, max_positions
from regard.models.registry import register_model
from regard.models.system import TrainableSystem
from regard.models.transformer.model import SourceEncoder, TransformerModel
from regard.types import Float, Int, Tensor

__all__ = ["HfEncoder", "PretrainedEncoderSystem", "build_pretrained"]


class HfEncoder(SourceEncoder):
    """The encoder, with a linear projection to the decoder's dimension if the dimensions differ.

    Args:
        model: The encoder of transformers.
        tokenizer: The source tokenizer.
        width: The decoder's dimension.
    """

    def __init__(self, model: Any, tokenizer: PretrainedTokenizer, width: int) -> None:
        """Combine the parts."""
        super().__init__()
        use_regard_attention(model)
        self.model, self.layout = model, InputLayout.of(tokenizer)
        hidden_size = model.config.hidden_size
        # The projection is new, so it is not among the pre-trained layers.
        self.output_proj = nn.Identity() if hidden_size == width else Linear(hidden_size, width)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `SourceEncoder.max_length`."""
        found = max_positions(self.model)
        # `max_length` includes one sink or end symbol; the other special symbols take positions too.
        return None if found is None else found - max(0, self.layout.num_special - 1)

    def forward(
        self, source: PaddedSequences, output_attentions: bool
    ) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states in the order of our tokens; see `SourceEncoder.forward`."""
        session = AttentionSession(
            [], source.mask, output_attentions="all" if output_attentions else "nothing"
        )
        with use_session(session):
            states = self.layout.encode(self.model, source)
        return self.output_proj(states), [
            self.layout.reorder_attention(source, weights) for weights in session.self_attentions
        ]

    def count_multiply_adds(self, lengths: Int[Tensor, "B"]) -> int:
        """Return the multiply-adds; see `SourceEncoder.count_multiply_adds`."""
        projection = matrix_entries(self.output_proj)
        return count_multiply_adds(self.model, lengths, causal=False) + int(lengths.sum()) * projection

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the encoder's parameters by layer; see `SourceEncoder.pretrained_layers`."""
        return layer_groups(self, [self.model], ["output_proj."])


@register_model("pretrained", PretrainedConfig)
class PretrainedEncoderSystem(TrainableSystem):
    """A Transformer whose encoder is pre-trained."""

    checks_own_weights = True

    @classmethod
    def build(
        cls, config: PretrainedConfig, text: TextProcessor, model_dir: Path | None = None
    ) -> TransformerModel:
        """Build the model; see `build_pretrained`."""
        return build_pretrained(config, text, model_dir)

    @classmethod
    def copy_configs(cls, config: PretrainedConfig, model_dir: Path) -> None:
        """Copy the configuration of the encoder."""
        copy_configs(config.folders, model_dir)


def build_pretrained(
    config: PretrainedConfig, text: TextProcessor, model_dir: Path | None = None
) -> TransformerModel:
    """Build the model that a config describes.

    Args:
        config: The encoder's directory, and the decoder.
        text: The tokenizers; the source tokenizer is the encoder's.
        model_dir: A model directory that contains the encoder's configuration. Default: None, which loads the
            encoder's weights.

    Raises:
        CheckpointError: if the directory is missing or broken.
        ConfigError: if the tokenizer does not match, or if parts of the decoder are incompatible.
    """
    source = pretrained_side(text.source, "source")
    model = load_encoder(config_dirs(config.folders, model_dir)["encoder_path"], weights=model_dir is None)
    check_tokenizer_fit(
        source, model.get_input_embeddings().weight.shape[0], model.config, config.encoder_path
    )
    encoder = HfEncoder(model, source, config.d_model)
    sizes = (len(side.vocabulary) for side in (text.source, text.target))
    return TransformerModel(config.transformer, *sizes, pretrained_encoder=encoder)
