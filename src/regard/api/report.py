"""The HTML report of one or more systems, `regard.report`."""

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from regard.alignment import WordAligner
from regard.analysis.inputs import Linker, ParallelText, Progress, no_progress, read_gold
from regard.api.alignment import Aligner
from regard.api.arguments import TextSource, parallel_text
from regard.api.evaluation import tokenized_notes
from regard.api.systems import Companions, load_systems, lock_models, name_models
from regard.api.translator import Translator
from regard.config.extensions import hook, require_hook
from regard.errors import UsageError
from regard.metrics.translation import check_tokenizer
from regard.models.registry import foreign_format
from regard.reporting.page import Report, SystemsCheck, render
from regard.reporting.scores import compute_scores
from regard.reporting.systems import SystemResults, add_word_links, collect_system
from regard.runs.description import load_description
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import open_atomic
from regard.text.links import GoldLinks, check_links
from regard.text.paths import check_outputs

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportOptions:
    """The content of a report.

    Attributes:
        names: Display names of the systems. Default: the names of the directories and files.
        title: Title of the page. Default: the names of the systems and of the text.
        gold_links: Gold word links of source and reference (.talp: i-j sure, ipj possible), for the alignment
            error rate.
        tokenize: Tokenizer of BLEU and lengths: `13a`, `none` (for tokenized text), `intl`, `char`...
        lowercase: Whether to ignore case in BLEU, chrF, REP and word links.
        check: The check whose errors are marked, such as `regard.ReportCheck`. Default: that of an extension,
            with the model of `train_missing`.
        train_missing: Whether to train an aligner and a checker, if they are not given, on the training text
            in the directory of the first model. They are kept there.
    """

    names: Sequence[str] | None = None
    title: str | None = None
    gold_links: Path | str | Iterable[GoldLinks | str] | None = None
    tokenize: str = "13a"
    lowercase: bool = False
    check: SystemsCheck | None = None
    train_missing: bool = True

    def __post_init__(self) -> None:
        """Reject an unknown tokenizer."""
        check_tokenizer(self.tokenize)


def report(
    models: Translator | Path | str | Sequence[Translator | Path | str],
    *,
    test: tuple[TextSource, TextSource] | Literal["config"] | None = None,
    output: Path | str = "report.html",
    aligner: Aligner | WordAligner | Path | str | None = None,
    options: ReportOptions | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> Path:
    """Write an HTML page with the translations, attention and scores of one or more systems.

    Args:
        models: Model directories and files of translations. Several are compared with the first.
        test: Source text and reference translations, plain or compressed. In Python, `config` uses the test
            text in the configuration of the first model, or else its validation text. A configuration may
            name any file on this machine, so use `config` only with your own models.
        output: File of the page.
        aligner: Directory of a word aligner (`regard align --save-aligner`), needed to find dropped words.
            Default: one that is trained; see `train_missing`.
        options: The content of the page.
        progress: Progress display.
        settings: Arguments of `regard.load`, such as `device` and `beam_size`.

    Returns:
        The file of the page.

    Raises:
        UsageError: if an argument does not apply, there is no text, or the page would overwrite an input.
        DataError: if a file cannot be read or written, or the texts or gold links do not match.
    """
    options, path = options or ReportOptions(), Path(output)
    named = name_models(models, options.names)
    if test is None:
        raise UsageError(
            "the report needs a text: give test=(source, reference), or test='config' for the files in the "
            "configuration of the first model"
        )
    text = _config_text(next(iter(named.values()))) if test == "config" else parallel_text(*test)
    systems = [model if isinstance(model, list) else model.directories for model in named.values()]
    texts = filter(None, (text.source_path, text.reference_path))
    check_outputs([*itertools.chain(*systems), *texts], [path])
    gold = None if options.gold_links is None else read_gold(options.gold_links, text)
    # The file is opened first: an error after hours of translation would be a waste.
    with open_atomic(path) as file, lock_models(named.values()):
        file.write(render(_collect(named, text, gold, aligner, options, progress, settings)).encode())
    return path


def _collect(
    named: Mapping[str, Translator | list[Path]],
    text: ParallelText,
    gold: Sequence[GoldLinks] | None,
    aligner: Aligner | WordAligner | Path | str | None,
    options: ReportOptions,
    progress: Progress,
    settings: Mapping[str, Any],
) -> Report:
    """Translate the text with all systems and return the content of the page; see `report`."""
    num_threads = settings.get("num_threads")
    companions = Companions.of(named.values(), num_threads or 0) if options.train_missing else None
    default_check = hook("report_check")
    errors_check = options.check or (default_check and default_check(optional=True))
    uses_companions = aligner is None or (errors_check is not None and errors_check.uses_companions)
    few_pairs = companions.few_pairs_notes() if companions is not None and uses_companions else []
    # Wrong and missing inputs of the check are reported before the translation.
    find_errors = None if errors_check is None else errors_check.load(companions, num_threads or 0)
    if aligner is None and companions is not None:
        aligner = companions.aligner()
    systems = {
        system.name: collect_system(system, text.pairs, progress, options.lowercase)
        for system in load_systems(named, settings, len(text), text.source_name)
    }
    # Files of translations come last from `load_systems`; the page keeps the order of the user.
    results = [systems[name] for name in named]
    if gold is not None:
        _check_gold(results, gold, options.gold_links)
    if aligner is not None:
        results = _add_links(results, aligner, options.lowercase, num_threads)
    names = ", ".join(system.name for system in results)
    sources = [source for source, _ in text.pairs]
    return Report(
        options.title or f"{names}: {Path(text.source_name).name}",
        text.source_name,
        text.reference_path or "references",
        text.pairs,
        results,
        compute_scores(results, text.pairs, options.tokenize, options.lowercase, gold),
        gold,
        [*_page_notes(results, text, options.tokenize), *few_pairs],
        date=date.today().isoformat(),
        check=None if find_errors is None else find_errors(results, sources),
    )


def _page_notes(systems: Sequence[SystemResults], text: ParallelText, tokenize: str) -> list[str]:
    """Return notes for the reader of the page, such as the number of skipped lines."""
    notes = [*tokenized_notes({text.reference_path or "references": text.references}, tokenize)]
    for system in systems:
        num_too_long = sum(result.error is not None for result in system.sentences)
        if num_too_long:
            notes.append(
                f"{system.name}: {num_too_long} lines are too long for the model and were not translated."
            )
    return notes


def report_check(
    detector: str = "combined",
    checker: Path | str | None = None,
    training: tuple[Path | str, Path | str] | None = None,
) -> SystemsCheck:
    """Return the check of translations for `ReportOptions.check`.

    Args:
        detector: Detector: combined (calibrated probabilities of all errors), length, repetition, or one of a
            plugin.
        checker: Directory of a model of good translations (`regard check --save-checker`).
        training: Source text and good translations, on which a model is trained instead.

    Raises:
        UsageError: if arguments contradict each other, or no extension provides detectors.
    """
    if training is not None and checker is not None:
        raise UsageError("give either checker (--checker) or training (--train), not both")
    check = require_hook("report_check", "check")
    return check(detector, checker, training)


def _config_text(model: Any) -> ParallelText:
    """Return the test text in the configuration of a model, or else its validation text."""
    directory: Path = (model if isinstance(model, list) else model.directories)[0]
    if not directory.is_dir() or foreign_format(directory) is not None:
        raise UsageError(
            f"{directory}: this is not a model directory whose configuration names a text; give "
            "test=(source, reference) (--test SOURCE REFERENCE)"
        )
    data = load_description(directory).data
    corpus: CorpusConfig = data.test or data.valid
    pairs = list(read_pairs(corpus))
    sources, references = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return ParallelText(sources, references, corpus.source or corpus.file, corpus.target or corpus.file)


def _check_gold(systems: Sequence[SystemResults], gold: Sequence[GoldLinks], given: Any) -> None:
    """Check that the gold links stay within the sentences as tokenized by each model."""
    # Links that are given as a list have no file name.
    name = given if isinstance(given, Path | str) else "gold_links"
    for system in systems:
        for result, links, attention in zip(system.sentences, gold, system.attention, strict=False):
            if attention is not None:
                words = {"source": len(result.sentence.source), "reference": len(result.sentence.reference)}
                where = f"{name}:{result.sentence.line}"
                check_links(links.possible, words, where, f" with the tokenization of {system.name}")


def _add_links(
    systems: Sequence[SystemResults],
    aligner: Aligner | WordAligner | Path | str,
    lowercase: bool,
    num_threads: int | None,
) -> list[SystemResults]:
    """Return the systems with the word links of an aligner."""
    model = aligner.model if isinstance(aligner, Aligner) else aligner
    linker = Linker.load(model, lowercase, num_threads)
    # All systems share the text, so one warning about its unknown words is enough.
    words = [(result.sentence.source, result.sentence.reference) for result in systems[0].sentences]
    for note in linker.unknown_word_notes(words):
        _log.warning("%s", note)
    return [add_word_links(system, linker.align) for system in systems]
