"""The registry of models, and the contract of model directories in the format of another library.

A model registers itself with its configuration class (`register_model`). An extension provides the format by
the hook `model_format`.
"""

from pathlib import Path
from typing import Annotated, Any, Protocol, cast

from regard.config.extensions import hook
from regard.config.registry import PartConfig, Registry, subclass_of
from regard.data.text import TextProcessor
from regard.errors import ConfigError
from regard.models.base import TrainableSystem, TranslationModel

MODELS: Registry[type[TrainableSystem]] = Registry(
    "model",
    default="rnn",
    packages=["regard.models.rnn", "regard.models.conv", "regard.models.transformer"],
    contract=subclass_of(TrainableSystem),
)
register_model = MODELS.register

ModelConfig = Annotated[PartConfig, MODELS]


def build_for_text(
    config: ModelConfig, text: TextProcessor, model_dir: Path | None = None
) -> TranslationModel:
    """Build the neural model that a config describes; see `TrainableSystem.build`.

    Raises:
        CheckpointError: if a directory of pre-trained weights is missing or broken.
        ConfigError: if parts do not fit together, or if two different vocabularies would share embeddings.
    """
    tokens = [side.vocabulary.tokens for side in (text.source, text.target)]
    # A stored model passed this check before its training.
    if model_dir is None and getattr(config, "tie_embeddings", "none") == "all" and tokens[0] != tokens[1]:
        raise ConfigError(
            "model.tie_embeddings = 'all' needs one vocabulary for both sides, but the source vocabulary "
            f"({len(tokens[0])} tokens) and the target vocabulary ({len(tokens[1])} tokens) differ: "
            "set data.shared_vocab = true"
        )
    return MODELS.part_of(config).build(config, text, model_dir)


def build_model(config: ModelConfig, source_size: int, target_size: int) -> TranslationModel:
    """Build a neural model without pre-trained parts, for vocabularies of these sizes.

    Parameters are initialized from PyTorch's global generator.
    """
    return cast(Any, MODELS.part_of(config))(config, source_size, target_size)


class ModelFormat(Protocol):
    """A format of model directories, which contain a model that was trained by another library."""

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory has this format."""
        ...

    def describe_model(self, directory: Path) -> Any:
        """Return a `regard.runs.description.ModelDescription` that stands for a directory, without text.

        Raises:
            CheckpointError: if a file is missing or invalid; names it.
        """
        ...

    def load_text(self, directory: Path, config: Any) -> TextProcessor:
        """Return the tokenizers of a directory, given its description, possibly with overrides.

        A warning is logged if settings of the directory are ignored.

        Raises:
            DataError: if the directory has no tokenizer.
            ConfigError: if an override names another tokenizer.
        """
        ...


def foreign_format(directory: Path) -> ModelFormat | None:
    """Return the format of a directory of another library; None for a model directory of this package."""
    model_format: ModelFormat | None = hook("model_format")
    return model_format if model_format is not None and model_format.recognizes(directory) else None
