"""The interface of a system that a run trains: what `regard.experiment` requires of a registered model.

Neural models (`regard.models.base.TranslationModel`) keep the defaults and are trained by
`regard.training.trainer`. Other systems train themselves and load their own translators.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from regard.data.dataset import PreparedData
    from regard.data.text import TextProcessor
    from regard.models.base import TranslationModel

__all__ = ["TrainableSystem"]


class TrainableSystem:
    """Base class of all registered models.

    Attributes:
        is_neural: Whether the system is a PyTorch module that `Trainer` trains; if not, `train_run` trains
            it.
        has_attention: Whether the run may have options that concern attention: fertilities and loss terms.
        checks_own_weights: Whether building the model checks its parts, so that the shapes of stored weights
            are not compared before.
        weights_name: Name of the file or directory, within the model directory, with the trained weights.
    """

    is_neural: ClassVar[bool] = True
    has_attention: ClassVar[bool] = True
    checks_own_weights: ClassVar[bool] = False
    weights_name: ClassVar[str] = "model.safetensors"

    @classmethod
    def build(cls, config: Any, text: "TextProcessor", model_dir: Path | None = None) -> "TranslationModel":
        """Build the neural model that a config describes, with the weights of its pre-trained parts.

        Args:
            config: The config of this model.
            text: The format of the source and the target side.
            model_dir: A model directory whose weights the caller loads afterward. Default: None, which loads
                the weights of pre-trained parts.
        """
        raise NotImplementedError(f"{cls.__name__} is not a neural model")

    @classmethod
    def copy_configs(cls, config: Any, model_dir: Path) -> None:
        """Copy the files that `build` needs from other directories into a model directory.

        Raises:
            CheckpointError: if one of these directories is missing or broken.
            OSError: if a file cannot be written.
        """

    @classmethod
    def has_run(cls, model_dir: Path) -> bool:
        """Return whether a directory has a system, or the state of a run, in a format of its own."""
        return False

    @classmethod
    def train_run(
        cls,
        config: Any,
        prepared: "PreparedData",
        model_dir: Path,
        file_checksums: Mapping[str, str],
        seed: int,
        num_threads: int,
    ) -> Any:
        """Train the system, resume an unfinished run, or load the system if the run is complete.

        Args:
            config: The configuration of the system.
            prepared: The prepared text.
            model_dir: The model directory; it exists.
            file_checksums: The checksums of the config and the vocabularies.
            seed: The random seed.
            num_threads: The number of threads of compiled code. 0 uses all processors.

        Returns:
            A `regard.training.trainer.TrainingResult`.
        """
        raise NotImplementedError(f"{cls.__name__} is trained by regard.training.trainer")

    @classmethod
    def load_translator(cls, run: Any, model_dir: Path, num_threads: int) -> Any:
        """Load the trained system as a translator with the search settings of its run.

        Args:
            run: The `regard.run_config.RunConfig` in the model directory.
            model_dir: The model directory.
            num_threads: The number of CPU threads of compiled code. 0 uses all processors.

        Returns:
            A `regard.generation.base.BaseTranslator`.
        """
        raise NotImplementedError(f"{cls.__name__} is loaded by regard.experiment")
