"""regard: neural machine translation whose attention you can see, bound and trust.

Public names and modules are imported lazily: `regard.functional.sparsemax` loads the normalizers alone and
not the rest of the toolkit.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError, missing_extra
from regard.version import __version__

# Type checkers and editors resolve the public names by these imports, which never run.
if TYPE_CHECKING:
    from regard import analyze
    from regard import functional as functional
    from regard import hf as hf
    from regard import nn as nn
    from regard.alignment.base import register_aligner
    from regard.api.alignment import Aligner, align
    from regard.api.evaluation import Evaluation, EvaluationOptions, evaluate, evaluate_links
    from regard.api.fertility import fertilities
    from regard.api.init_run import init_run
    from regard.api.report import ReportOptions, report
    from regard.api.training import train, tune
    from regard.api.translations import Scores, Translations
    from regard.api.translator import Translator, load
    from regard.attention.registry import register_attention, register_normalizer
    from regard.attention.scorers import register_score_function
    from regard.config import configclass, option
    from regard.config.cpu_threads import configure_threads
    from regard.config.plugins import load_plugins
    from regard.extensions.check.api import CoverageModel as CoverageModel
    from regard.extensions.check.api import check as check
    from regard.extensions.check.base import register_detector as register_detector
    from regard.extensions.check.corrupt import CorruptedText as CorruptedText
    from regard.extensions.check.corrupt import corrupt as corrupt
    from regard.extensions.check.evaluation import CoverageEvaluation as CoverageEvaluation
    from regard.extensions.check.page import check_report as check_report
    from regard.extensions.check.report import ReportCheck as ReportCheck
    from regard.extensions.check.result import CoverageCheck as CoverageCheck
    from regard.extensions.check.sentences import CheckedSentence as CheckedSentence
    from regard.extensions.hf.hub import upload as upload
    from regard.generation.config import Sampling
    from regard.generation.repair import Repair
    from regard.generation.reranking import MBR
    from regard.generation.translation import Translation
    from regard.generation.tune_penalties import PenaltyTuningOptions
    from regard.metrics.base import register_metric
    from regard.models.registry import register_model
    from regard.text.formats.base import FileOptions
    from regard.text.tokenizers.base import register_tokenizer
    from regard.training.losses.base import register_loss
    from regard.training.run_config import RunConfig, load_config
    from regard.training.run_context import Callback

__all__ = [
    "MBR",
    "Aligner",
    "Callback",
    "Evaluation",
    "EvaluationOptions",
    "FileOptions",
    "PenaltyTuningOptions",
    "Repair",
    "ReportOptions",
    "RunConfig",
    "Sampling",
    "Scores",
    "Translation",
    "Translations",
    "Translator",
    "__version__",
    "align",
    "analyze",
    "configclass",
    "configure_threads",
    "evaluate",
    "evaluate_links",
    "fertilities",
    "init_run",
    "load",
    "load_config",
    "load_plugins",
    "option",
    "register_aligner",
    "register_attention",
    "register_loss",
    "register_metric",
    "register_model",
    "register_normalizer",
    "register_score_function",
    "register_tokenizer",
    "report",
    "train",
    "tune",
]

_MODULES = {
    "regard.alignment.base": "register_aligner",
    "regard.api.alignment": "Aligner align",
    "regard.api.evaluation": "Evaluation EvaluationOptions evaluate evaluate_links",
    "regard.api.fertility": "fertilities",
    "regard.api.init_run": "init_run",
    "regard.api.report": "ReportOptions report",
    "regard.api.training": "train tune",
    "regard.api.translations": "Scores Translations",
    "regard.api.translator": "Translator load",
    "regard.attention.registry": "register_attention register_normalizer",
    "regard.attention.scorers": "register_score_function",
    "regard.config": "configclass option",
    "regard.config.cpu_threads": "configure_threads",
    "regard.config.plugins": "load_plugins",
    "regard.generation.config": "Sampling",
    "regard.generation.reranking": "MBR",
    "regard.generation.repair": "Repair",
    "regard.generation.translation": "Translation",
    "regard.generation.tune_penalties": "PenaltyTuningOptions",
    "regard.metrics.base": "register_metric",
    "regard.models.registry": "register_model",
    "regard.text.formats.base": "FileOptions",
    "regard.text.tokenizers.base": "register_tokenizer",
    "regard.training.losses.base": "register_loss",
    "regard.training.run_config": "RunConfig load_config",
    "regard.training.run_context": "Callback",
}
"""The public names by the module that defines them."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name or a module of the package at its first use (PEP 562)."""
    if name in _HOMES:
        return getattr(_import(_HOMES[name]), name)
    if not name.startswith("_") and name in (homes := _extension_names()):
        return getattr(_import(homes[name]), name)
    if name.startswith("_") or find_spec(f"regard.{name}") is None:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return _import(f"regard.{name}")


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        raise UsageError(f"{module} {missing}") from None


def __dir__() -> list[str]:
    """Return the public names of the package and of its extensions."""
    return sorted([*__all__, *_extension_names()])


def _extension_names() -> dict[str, str]:
    """Return the public names of the extensions, with the modules that define them."""
    from regard.config.extensions import installed_extensions

    return {name: home for part in installed_extensions().values() for name, home in part.names.items()}
