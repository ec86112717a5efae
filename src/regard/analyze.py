"""Analyses of models on a text from Python, as `regard analyze` does.

They cover errors, attention, the faithfulness of maps and scores by length:

analysis = regard.analyze.errors("runs/first", "test.de", "test.en", aligner="aligner")
analysis.rows()[0]  # the sentence with the highest number of errors

Models are given as a directory, as several directories, or as a loaded `regard.Translator`, and texts as
lists of sentences or as files. Further keyword arguments are those of `regard.load`: `device`, `precision`,
`num_threads`, and search settings such as `beam_size`, `batch_size`, `layer` and `head`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.alignment import WordAligner
from regard.analysis.attention import AttentionAnalysis, AttentionOptions, analyze_attention
from regard.analysis.errors import ErrorAnalysis, analyze_errors
from regard.analysis.faithfulness import MAP_METHODS, FaithfulnessAnalysis, analyze_faithfulness
from regard.analysis.inputs import Linker, ParallelText, Progress, System, no_progress
from regard.analysis.length import LengthAnalysis, LengthOptions, analyze_length
from regard.api.alignment import Aligner
from regard.api.arguments import TextSource, parallel_text
from regard.api.systems import Companions, load_systems, lock_models, name_models, single_model
from regard.api.translator import Translator
from regard.generation.config import MapMethod

__all__ = [
    "AttentionAnalysis",
    "AttentionOptions",
    "ErrorAnalysis",
    "LengthAnalysis",
    "LengthOptions",
    "attention",
    "errors",
    "faithfulness",
    "length",
]

ModelSource = Translator | Path | str
ModelSources = ModelSource | Sequence[ModelSource]


def errors(
    model: ModelSource | Sequence[Path | str],
    sources: TextSource,
    references: TextSource,
    *,
    aligner: Aligner | WordAligner | Path | str | None = None,
    train_missing: bool = True,
    lowercase: bool = False,
    progress: Progress = no_progress,
    **settings: Any,
) -> ErrorAnalysis:
    """Translate a text and find dropped and repeated words (Malaviya et al. (2018), Section 5).

    Args:
        model: Model directory, or a file of translations. Several directories form an ensemble.
        sources: Source text, plain or compressed.
        references: Reference translations, one line per source line.
        aligner: Directory of a word aligner (`regard align --save-aligner`), needed to find dropped words.
        train_missing: Whether to train an aligner, if none is given, on the training text in the directory of
            the model. It is kept there.
        lowercase: Whether to ignore case in repetitions and word links.
        progress: Progress display, such as a wrapper of `tqdm`.
        settings: Arguments of `regard.load`.

    Raises:
        UsageError: if an argument does not apply.
        DataError: if a file cannot be read, the texts do not match, or all lines are too long.
    """
    text, models = parallel_text(sources, references), single_model(model)
    threads = settings.get("num_threads")
    if aligner is None and train_missing and (companions := Companions.of(models.values(), threads or 0)):
        aligner = companions.aligner()
    if isinstance(aligner, Aligner):
        aligner = aligner.model
    linker = None if aligner is None else Linker.load(aligner, lowercase, threads)
    with lock_models(models.values()):
        (system,) = _load(models, text, settings)
        return analyze_errors(system, text, linker, lowercase, progress)


def attention(
    models: ModelSources,
    sources: TextSource,
    references: TextSource,
    *,
    options: AttentionOptions | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> AttentionAnalysis:
    """Compute entropy, accuracy, coverage and alignment error of attention under teacher forcing.

    These are the statistics of Shankar & Sarawagi (2019), Figures 2 to 5 and Table 3.

    Args:
        models: Model directories. Several are compared.
        sources: Source text, plain or compressed.
        references: Reference translations, one line per source line, on which forced decoding runs.
        options: Gold links, lines whose attention maps are kept, prior attention, and bins.
        names: Display names of the models. Default: the names of their directories.
        progress: Progress display.
        settings: Arguments of `regard.load`.

    Raises:
        UsageError: if an argument does not apply, or a model has no attention to the source.
        DataError: if a file cannot be read, or the texts or gold links do not match.
    """
    named_models = name_models(models, names)
    text = parallel_text(sources, references)
    with lock_models(named_models.values()):
        return analyze_attention(
            _load(named_models, text, settings), text, options or AttentionOptions(), progress
        )


def faithfulness(
    models: ModelSources,
    sources: TextSource,
    references: TextSource,
    *,
    map: MapMethod | Sequence[MapMethod] = MAP_METHODS,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> FaithfulnessAnalysis:
    """Compute the fall of each probability when the source token with the largest weight is removed.

    Args:
        models: Model directories. Several are compared.
        sources: Source text, plain or compressed.
        references: Reference translations, one line per source line, on which forced decoding runs.
        map: The kind of map, or several: `attention`, `gradient`, `leave_one_out`.
        names: Display names of the models. Default: the names of their directories.
        progress: Progress display.
        settings: Arguments of `regard.load`. `layer` and `head` select the attention.

    Raises:
        UsageError: if an argument does not apply, or a model does not support a kind of map.
        DataError: if a file cannot be read, the texts do not match, or no line has two source tokens.
    """
    named_models = name_models(models, names)
    text = parallel_text(sources, references)
    kinds = (map,) if isinstance(map, str) else tuple(map)
    with lock_models(named_models.values()):
        return analyze_faithfulness(_load(named_models, text, settings), text, kinds, progress)


def length(
    systems: ModelSources,
    sources: TextSource,
    references: TextSource,
    *,
    options: LengthOptions | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> LengthAnalysis:
    """Translate a text and compute BLEU, REP and DROP by source length (Indurthi et al. (2019), Table 2).

    Args:
        systems: Model directories and files of translations. Several are compared with the first.
        sources: Source text, plain or compressed.
        references: Reference translations, one line per source line.
        options: Aligner, buckets, tokenizer and case.
        names: Display names of the systems. Default: the names of their directories and files.
        progress: Progress display.
        settings: Arguments of `regard.load`.

    Raises:
        UsageError: if an argument does not apply.
        DataError: if a file cannot be read, the texts do not match, or all lines are too long for a system.
    """
    named_systems = name_models(systems, names)
    text = parallel_text(sources, references)
    options = options or LengthOptions()
    if isinstance(options.aligner, Aligner):
        options = replace(options, aligner=options.aligner.model)
    with lock_models(named_systems.values()):
        loaded = _load(named_systems, text, settings)
        return analyze_length(loaded, text, options, settings.get("num_threads"), progress)


def _load(
    given: dict[str, Translator | list[Path]], text: ParallelText, settings: dict[str, Any]
) -> Iterator[System]:
    """Load all systems when the first one is needed, and yield them in the given order."""
    systems = {system.name: system for system in load_systems(given, settings, len(text), text.source_name)}
    yield from (systems[name] for name in given)
