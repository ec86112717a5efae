"""The description of a run: its configuration, and the file in which a model directory stores it.

A Hugging Face directory is a model directory, too: its config, tokenizers and search settings make a
`RunConfig`.
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from regard.config import (
    apply_override,
    configclass,
    dump_toml,
    from_dict,
    option,
    read_config,
    read_toml,
)
from regard.config.plugins import is_loaded, load_plugins, loaded, plugin_name
from regard.config.registry import plugins_of
from regard.data.config import DataConfig
from regard.data.hf import HF_CONFIG, is_hf_directory, missing_directory_message, read_hf_config
from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, ConfigError, DataError
from regard.generation.config import GenerationConfig
from regard.models.hf.causal_config import CausalConfig, is_causal
from regard.models.hf.config import HfConfig
from regard.models.hf.generation import read_generation_settings
from regard.models.registry import MODELS, ModelConfig
from regard.models.rnn.config import RnnConfig
from regard.text.corpus import CorpusConfig
from regard.text.files import write_atomic
from regard.text.paths import check_name
from regard.text.reading import checked_file, read_bytes
from regard.text.tokenizers.base import TOKENIZERS
from regard.text.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.text.tokenizers.prompt import PromptTokenizerConfig
from regard.training.config import TrainingConfig
from regard.training.losses.base import build_loss
from regard.training.resume import CONFIG_FILE
from regard.version import __version__

__all__ = [
    "END_MARKER",
    "RunConfig",
    "listed_plugins",
    "load_config",
    "load_hf_text",
    "read_run_config",
    "warn_ignored_settings",
    "write_config",
]

_log = logging.getLogger(__name__)

MAIN_MODULE = "__main__"
MAX_GENERATED_LENGTH = 100_000
"""Largest maximum length of a translation, in tokens, that is taken from a generation config."""
END_MARKER = "# end of config\n"
"""Last line of a config file. It detects truncation: a truncated config would still be valid TOML, with
defaults for the missing options."""


@configclass
class RunConfig:
    """All settings of a run: data, model, training and search."""

    output_dir: str | None = option(
        default=None,
        help="Output directory of the run. Default: `runs/NAME` in the current directory for a config file "
        "`NAME.toml`.",
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the data and dropout.",
        ge=0,
        le=2**32 - 1,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    num_threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )
    plugins: tuple[str, ...] = option(
        default=(),
        help="Plugins to import: Python packages or files (.py) that register attention mechanisms, models, "
        "losses and other parts. Default: none; plugins with an entry point need not be listed.",
    )
    data: DataConfig = option(help="Training and validation data.")
    model: ModelConfig = option(default=RnnConfig, help="Architecture and size of the model.")
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")
    generation: GenerationConfig = option(
        default=GenerationConfig, help="Default search settings for translation."
    )

    def with_alignment(self) -> "RunConfig":
        """Return the config in which word alignments come from the supervised attention.

        A layer or heads given in `generation.alignment` take precedence.
        """
        alignment = self.generation.alignment
        supervised = (build_loss(loss).supervised_attention for loss in self.training.losses)
        taught = next((attention for attention in supervised if attention is not None), None)
        if taught is None or alignment.layer is not None or alignment.map != "attention":
            return self
        settings = dataclasses.replace(alignment, layer=taught[0], heads=alignment.heads or taught[1])
        return dataclasses.replace(self, generation=dataclasses.replace(self.generation, alignment=settings))

    def with_plugins(self) -> "RunConfig":
        """Return the config with all plugins that the run needs, as a model directory records them.

        A part that a script or notebook defines cannot be loaded elsewhere; a warning states the remedy.
        """
        plugins = plugins_of(self)
        if MAIN_MODULE in plugins:
            plugins = plugins - {MAIN_MODULE}
            _log.warning(
                "the run uses a part that a script or notebook defines, so that only there the model can be "
                "loaded; to load it elsewhere, move the part to a file and give it as a plugin: "
                "--plugin parts.py, in Python plugins=['parts.py']"
            )
        needed = [plugin_name(name) for name in (*self.plugins, *loaded(), *sorted(plugins))]
        return dataclasses.replace(self, plugins=tuple(dict.fromkeys(needed)))

    def __post_init__(self) -> None:
        """Check that the sections of the config are compatible."""
        if not MODELS.part_of(self.model).has_attention:
            if self.data.fertility or self.training.losses:
                raise ValueError(
                    f"data.fertility, training.losses: model.kind = {self.model.kind!r} has no attention; "
                    "remove these sections"
                )
            return
        attention = getattr(self.model, "attention", None)
        # Pointer attention advances at `step` actions, which only the tokenizer `actions` produces.
        wanted = getattr(attention, "target_tokenizer", None)
        if attention is not None and wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} requires data.target_tokenizer.kind = {wanted!r}")


def read_run_config(path: Path | str, overrides: Iterable[str] = ()) -> RunConfig:
    """Read the config of a run; directories that are not set are named after the file.

    The plugins that the file lists are imported.

    Args:
        path: The TOML file. For `NAME.toml` the default directories are `runs/NAME` and `prepared/NAME`.
        overrides: Overrides of the form `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong; see `regard.config.read_config`.
        PluginError: if a plugin is missing or cannot be imported.
    """
    data, name = read_toml(path), Path(path).stem
    for override in overrides:
        apply_override(data, override)
    # Plugins are imported before validation, which needs the parts that they register.
    load_plugins(listed_plugins(data))
    config = from_dict(RunConfig, data, origin=str(path))
    output_dir, cache_dir = config.output_dir or f"runs/{name}", config.data.cache_dir or f"prepared/{name}"
    for directory in (output_dir, cache_dir):
        check_name(directory)
    data_config = dataclasses.replace(config.data, cache_dir=cache_dir)
    return dataclasses.replace(config, output_dir=output_dir, data=data_config)


def listed_plugins(data: Mapping[str, Any]) -> list[str]:
    """Return the value of the key `plugins`; empty if it is not a list of strings, a later error."""
    names = data.get("plugins", ())
    return [*names] if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _missing_plugins(path: Path) -> list[str]:
    """Return the plugins that a config lists and that are not loaded; empty if the file is not TOML."""
    try:
        return [name for name in listed_plugins(read_toml(path)) if not is_loaded(name)]
    except ConfigError:
        return []


def load_config(model_dir: Path | str) -> RunConfig:
    """Return the config of the run that trained a model, or an equivalent one for a Hugging Face directory.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    model_dir = Path(model_dir)
    check_name(model_dir)
    if not model_dir.is_dir():
        raise CheckpointError(missing_directory_message(model_dir))
    if is_hf_directory(model_dir):
        return _hf_run_config(model_dir)
    path = model_dir / CONFIG_FILE
    if (model_dir / HF_CONFIG).is_file() and not path.exists():
        read_hf_config(model_dir)  # raises an error that explains why this is not a usable Hugging Face model
    try:
        if not read_bytes(checked_file(model_dir, CONFIG_FILE)).decode().endswith(END_MARKER):
            raise CheckpointError(f"{path}: truncated: the file does not end with {END_MARKER.strip()!r}")
        return read_config(RunConfig, path)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: corrupt: not UTF-8 at byte {error.start + 1}") from None
    except ConfigError as error:
        # The plugins of a model directory are never imported: a directory must not execute code.
        if missing := _missing_plugins(path):
            raise CheckpointError(
                f"{model_dir}: the model needs the plugin {', '.join(map(repr, missing))}, which is not "
                "loaded: install it with an entry point, or give it by --plugin (in Python: plugins=[...])"
            ) from None
        raise CheckpointError(
            f"{error}\n{model_dir} is not a model directory, or was written by another version of regard"
        ) from None


def write_config(config: RunConfig | Mapping[str, Any], model_dir: Path) -> None:
    """Write the config into a model directory, after a line with the version of regard.

    Args:
        config: The config, or the options to state in the file.
        model_dir: The model directory.

    Raises:
        DataError: if the file cannot be written.
    """
    write_atomic(
        model_dir / CONFIG_FILE,
        f"# Written by regard {__version__}\n{dump_toml(config)}\n{END_MARKER}".encode(),
    )


def _hf_run_config(directory: Path) -> RunConfig:
    """Return the config that stands for a Hugging Face directory: its tokenizers and its search settings."""
    path, causal = str(directory), is_causal(directory)
    model = CausalConfig(path=path) if causal else HfConfig(path=path)
    tokenizer = PromptTokenizerConfig(path=path) if causal else PretrainedTokenizerConfig(path=path)
    return RunConfig(data=_data_config(tokenizer), model=model, generation=_search_config(directory, causal))


def _data_config(tokenizer: PromptTokenizerConfig | PretrainedTokenizerConfig) -> DataConfig:
    """Return a data config with the tokenizer of a directory and an empty corpus."""
    # A data config requires training and validation text, which the directory does not contain.
    empty = CorpusConfig(source=os.devnull, target=os.devnull)
    return DataConfig(train=(empty,), valid=empty, source_tokenizer=tokenizer, target_tokenizer=tokenizer)


def load_hf_text(data: DataConfig) -> TextProcessor:
    """Load the tokenizers and vocabularies of a Hugging Face directory.

    Args:
        data: The section `data` of the directory's config; see `load_config`.

    Raises:
        DataError: if the directory has no tokenizer.
        ConfigError: if `data` names another kind of tokenizer.
    """
    source, target = (
        _side(config, name)
        for name, config in (("source", data.source_tokenizer), ("target", data.target_tokenizer))
    )
    return TextProcessor(source, target)


def _side(config: Any, name: str) -> TextSide:
    if not isinstance(config, PretrainedTokenizerConfig | PromptTokenizerConfig):
        raise ConfigError(
            f"data.{name}_tokenizer.kind: a Hugging Face model uses its own tokenizer; remove this setting"
        )
    tokenizer = TOKENIZERS.part_of(config).create(config, (), name)
    assert isinstance(tokenizer, PretrainedTokenizer)
    return TextSide(tokenizer, tokenizer.vocabulary)


def _search_config(directory: Path, causal: bool) -> GenerationConfig:
    """Return the search settings that `generate` of transformers would use for this directory.

    If the generation config gives no number of beams or no maximum length, regard's default applies. The
    defaults of transformers are 1 beam and 20 tokens, and the latter truncates translations.

    Args:
        directory: The directory.
        causal: Whether its model is decoder-only. Then `max_length` and `min_length` include the prompt and
            are ignored.

    Raises:
        CheckpointError: if a setting is invalid or out of range; names the file and the setting.
    """
    hf_settings, path = read_generation_settings(directory)
    defaults = GenerationConfig()
    min_length, max_length = (None, None) if causal else (hf_settings.min_length, hf_settings.max_length)
    # `max_new_tokens` and `min_new_tokens` do not count the start symbol.
    min_length = min_length if hf_settings.min_new_tokens is None else hf_settings.min_new_tokens + 1
    max_length = max_length if hf_settings.max_new_tokens is None else hf_settings.max_new_tokens + 1
    stopping: dict[bool | str | None, Literal["heuristic", "exact", "first_n"]] = {
        True: "first_n",
        "never": "exact",
    }
    # Some files give a very large number to mean "no limit".
    offset = defaults.max_length_offset if max_length is None else min(max_length, MAX_GENERATED_LENGTH)
    settings = {
        "beam_size": hf_settings.num_beams or defaults.beam_size,
        "length_penalty": 1.0 if hf_settings.length_penalty is None else hf_settings.length_penalty,
        "min_length": min_length or 0,
        # transformers has an absolute maximum: with the ratio 0, the offset alone is the maximum.
        "max_length_ratio": defaults.max_length_ratio if max_length is None else 0.0,
        "max_length_offset": offset,
        "no_repeat_ngram_size": hf_settings.no_repeat_ngram_size or 0,
        "suppress_unk": False,  # `generate` may produce the unknown token unless the settings suppress it
        "scheme": {
            "stopping": stopping.get(hf_settings.early_stopping, "heuristic"),
            "hf_compatible": True,
            "forced_eos": hf_settings.forces_end,
            "renormalize_logits": bool(hf_settings.renormalize_logits),
        },
    }
    try:
        return from_dict(GenerationConfig, settings, origin=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def warn_ignored_settings(directory: Path) -> None:
    """Log a warning that lists the settings of the generation config that regard ignores."""
    settings, path = read_generation_settings(directory)
    if names := settings.unsupported(several_ends=is_causal(directory)):
        _log.warning("%s: regard ignores %s", path, ", ".join(names))
