"""The HTML report of one or more systems, `regard.report`, and the page of a check, `check_report`."""

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from regard.alignment import WordAligner
from regard.analysis.errors import SentenceErrors
from regard.analysis.inputs import ParallelText, Progress, no_progress
from regard.analysis.linking import Linker, read_gold
from regard.api.alignment import Aligner
from regard.api.arguments import TextSource, parallel_text
from regard.api.companions import Companions
from regard.api.loading import load_systems, load_translator, lock_models, name_models
from regard.api.model import Model
from regard.api.report_notes import few_pairs_notes, page_notes
from regard.data.hf import is_hf_directory
from regard.data.training_text import read_training_text
from regard.errors import DataError, UsageError
from regard.extensions.check.api import CoverageModel, check
from regard.extensions.check.base import DETECTORS
from regard.extensions.check.result import CoverageCheck
from regard.metrics.translation import check_tokenizer
from regard.report.page import PageCheck, Report, render
from regard.report.scores import ScoreTable, compute_scores
from regard.report.systems import SentenceResult, SystemResults, add_word_links, collect_system
from regard.run_config import load_config
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import open_atomic
from regard.text.links import GoldLinks, check_links
from regard.text.paths import check_outputs

__all__ = ["ReportCheck", "ReportOptions", "check_report", "check_systems", "report"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportCheck:
    """The check of all translations of a report for omissions, additions and repetitions.

    Attributes:
        detector: Name of the detector.
        checker: A coverage model, or its directory. None for a detector that needs none.
        training: Good translations on which a coverage model is trained, if `checker` is None.
        translator: A model from the source to the target language, or its directory, for the detectors
            `contrastive` and `attention`.
        reverse_translator: The same from the target to the source language.
        threshold: Probability from which words are marked at first; the reader of the page can change it.
    """

    detector: str = "combined"
    checker: CoverageModel | Path | str | None = None
    training: tuple[TextSource, TextSource] | None = None
    translator: Any = None
    reverse_translator: Any = None
    threshold: float = 0.5

    def load(self, num_threads: int) -> "ReportCheck":
        """Return the check with loaded or trained models, which several systems share.

        Raises:
            DataError: if a model or a text cannot be read.
            UsageError: if there is no such detector, or an input that it needs is missing.
        """
        translators: dict[str, Any] = {
            name: load_translator([Path(given)]) if isinstance(given, Path | str) else given
            for name, given in self.translators.items()
        }
        # A wrong detector and missing inputs are reported before a model is trained.
        if self.training is None or DETECTORS.get(self.detector) is None:
            check([], [], self.detector, checker=self.checker, **translators)
        checker = self.checker
        if isinstance(checker, Path | str):
            checker = CoverageModel.load(checker, num_threads)
        elif checker is None and self.training is not None:
            checker = CoverageModel.train(*self.training, num_threads=num_threads)
        return replace(self, checker=checker, training=None, **translators)

    @property
    def translators(self) -> dict[str, Any]:
        """The arguments of `regard.check` for the translators."""
        return {"translator": self.translator, "reverse_translator": self.reverse_translator}


@dataclass(frozen=True)
class ReportOptions:
    """The content of a report.

    Attributes:
        names: Display names of the systems. Default: the names of the directories and files.
        title: Title of the page. Default: the names of the systems and of the text.
        max_lines: Maximum number of lines, from the start of the text. Default: all lines.
        gold_links: Gold word links of source and reference, for the alignment error rate: a file in the
            `.talp` format, or the links of each line.
        attention_maps: `links` for the map that is used for word links; `all` for the maps of all layers and
            heads, and the prior attention, as well.
        tokenize: Tokenizer of BLEU and lengths: `13a`, `none` (for tokenized text), `intl`, `char`...
        lowercase: Whether to ignore case in BLEU, chrF, REP and word links.
        meteor: Whether to compute METEOR if it is installed (English references only).
        check: The detector whose errors are marked. Default: `combined`, with the coverage model of
            `train_missing`.
        train_missing: Whether to train an aligner and a coverage model that are not given on the training
            text in the directory of the first model, and to keep them there.
    """

    names: Sequence[str] | None = None
    title: str | None = None
    max_lines: int | None = None
    gold_links: Path | str | Iterable[GoldLinks | str] | None = None
    attention_maps: Literal["links", "all"] = "links"
    tokenize: str = "13a"
    lowercase: bool = False
    meteor: bool = True
    check: ReportCheck | None = None
    train_missing: bool = True

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: if a value is not one of those above.
        """
        check_tokenizer(self.tokenize)
        if self.attention_maps not in ("links", "all"):
            raise UsageError(f"attention_maps={self.attention_maps!r}: expected links or all")
        if self.max_lines is not None and self.max_lines < 1:
            raise UsageError(f"max_lines={self.max_lines}: expected at least 1")


def report(
    models: Any,
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
        models: A directory, a file of translations or a loaded model, or several of them, which are compared
            with the first.
        test: The source lines and their references, as files or as lists of sentences. `config` for the test
            text in the configuration of the first model, or else its validation text. A configuration may
            name any file on this machine, so use `config` only with your own models.
        output: File of the page.
        aligner: A word aligner or its directory, needed to find dropped words. Default: see
            `ReportOptions.train_missing`.
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
    whole = _config_text(next(iter(named.values()))) if test == "config" else parallel_text(*test)
    _check_output(path, named, whole)
    # The number of gold links is compared with the whole text, before both are cut.
    gold = None if options.gold_links is None else read_gold(options.gold_links, whole)[: options.max_lines]
    pairs = whole.pairs[: options.max_lines]
    # The file is opened first: an error after hours of translation would be a waste.
    with open_atomic(path) as file, lock_models(named.values()):
        num_threads = settings.get("num_threads")
        companions = Companions.of(named.values(), num_threads or 0) if options.train_missing else None
        few_pairs = few_pairs_notes(companions if aligner is None or _needs_model(options.check) else None)
        detection = _detection(options.check, companions, num_threads or 0)
        if aligner is None and companions is not None:
            aligner = companions.aligner()
        systems = {
            system.name: collect_system(
                system, pairs, progress, options.attention_maps == "all", options.lowercase
            )
            for system in load_systems(named, settings, len(whole), whole.source_name)
        }
        # Files of translations come last from `load_systems`; the page keeps the order of the user.
        found = [_with_training_size(systems[name]) for name in named]
        if gold is not None:
            _check_gold(found, gold, options.gold_links)
        if aligner is not None:
            found = _add_links(found, aligner, options.lowercase, num_threads)
        page = _page(found, whole, pairs, gold, options)
        page = replace(page, notes=[*page.notes, *few_pairs])
        if detection is not None:
            page = replace(page, check=check_systems(found, pairs, detection, num_threads or 0))
        file.write(render(page).encode())
    return path


def _check_output(path: Path, named: Mapping[str, Model | list[Path]], text: ParallelText) -> None:
    """Check that the page does not overwrite a model, a file of translations or the text."""
    systems = [one if isinstance(one, list) else one.directories for one in named.values()]
    texts = filter(None, (text.source_path, text.reference_path))
    check_outputs([*itertools.chain(*systems), *texts], [path])


def _detection(
    given: ReportCheck | None, companions: Companions | None, num_threads: int
) -> ReportCheck | None:
    """Return the check of a report with its loaded models; None if there is none."""
    if _needs_model(given) and companions is not None and (model := companions.checker()) is not None:
        given = replace(given or ReportCheck(), checker=CoverageModel(model, num_threads))
    return given and given.load(num_threads)


def _with_training_size(system: SystemResults) -> SystemResults:
    """Return a system whose model card has the size of the training text, if it is known."""
    if system.card is None:
        return system
    text = read_training_text(Path(system.card.paths[0]))
    if text is None:
        return system
    return replace(system, card=replace(system.card, num_pairs=text.num_pairs, num_tokens=text.num_tokens))


def _needs_model(given: ReportCheck | None) -> bool:
    """Return whether a check needs the coverage model of a model directory."""
    return given is None or (given.detector == "combined" and given.checker is given.training is None)


def _page(
    systems: Sequence[SystemResults],
    text: ParallelText,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[GoldLinks] | None,
    options: ReportOptions,
) -> Report:
    """Return the content of the page: the scores of the systems on the pairs, the first ones of the text."""
    names = ", ".join(system.name for system in systems)
    return Report(
        options.title or f"{names}: {Path(text.source_name).name}",
        text.source_name,
        text.reference_name,
        pairs,
        systems,
        compute_scores(systems, pairs, options.tokenize, options.lowercase, options.meteor, gold),
        gold,
        page_notes(systems, text, options.tokenize),
        date=date.today().isoformat(),
    )


def check_systems(
    systems: Sequence[SystemResults],
    pairs: Sequence[tuple[str, str]],
    detection: ReportCheck,
    num_threads: int,
) -> PageCheck:
    """Return the errors that a detector finds in the translations of all systems.

    Args:
        systems: The systems.
        pairs: Source and reference of each sentence.
        detection: The detector.
        num_threads: Number of threads of the word aligner. 0 uses all processors.
    """
    sources, sentences = [source for source, _ in pairs], []
    for system in systems:
        outputs = [one.text for one in system.sentences]
        inputs = {"checker": detection.checker, "num_threads": num_threads, **detection.translators}
        found = check(sources, outputs, detection.detector, **inputs)
        records = found.to_dict()["sentences"]
        # A line that the model could not translate is an error of another kind.
        sentences.append(
            [None if own.error else one for own, one in zip(system.sentences, records, strict=True)]
        )
    return PageCheck(detection.detector, detection.threshold, sentences)


def check_report(
    found: CoverageCheck,
    output: Path | str = "check.html",
    name: str = "translation",
    title: str | None = None,
    threshold: float = 0.5,
) -> Path:
    """Write an HTML page with the errors of a check, in decreasing order of their probability.

    Args:
        found: The check.
        output: File of the page.
        name: Name of the system, or of the file of its translations.
        title: Title of the page. Default: `Check of NAME`.
        threshold: Probability from which words are marked at first; the reader of the page can change it.

    Returns:
        The file of the page.

    Raises:
        DataError: if the check has no sentences, or the file cannot be written.
    """
    if not found.sentences:
        raise DataError("the check has no sentences: a page needs at least one")
    sentences = []
    for one in found.sentences:
        sides = ((one.source, one.source_words), (one.translation, one.target_words))
        source, target = (tuple(text[first:last] for first, last in spans) for text, spans in sides)
        sentences.append(SentenceResult(SentenceErrors(one.line, source, (), target), one.translation))
    page = Report(
        title or f"Check of {name}",
        "",
        None,
        [(one.source, "") for one in found.sentences],
        [SystemResults(name, name, tuple(sentences))],
        ScoreTable({}, {}, {}, {}, [], {}, [None], []),
        check=PageCheck(found.detector, threshold, [found.to_dict()["sentences"]]),
        date=date.today().isoformat(),
    )
    with open_atomic(Path(output)) as file:
        file.write(render(page).encode())
    return Path(output)


def _config_text(model: Any) -> ParallelText:
    """Return the test text in the configuration of a model, or else its validation text."""
    directory: Path = (model if isinstance(model, list) else model.directories)[0]
    if not directory.is_dir():
        raise UsageError(
            f"{directory}: this is not a model directory with a configuration; give test=(source, reference) "
            "(--test SOURCE REFERENCE)"
        )
    if is_hf_directory(directory):
        raise UsageError(
            f"{directory}: the configuration of a Hugging Face model names no text; give "
            "test=(source, reference) (--test SOURCE REFERENCE)"
        )
    data = load_config(directory).data
    corpus: CorpusConfig = data.test or data.valid
    pairs = list(read_pairs(corpus))
    sources, references = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return ParallelText(sources, references, corpus.source or corpus.tsv, corpus.target or corpus.tsv)


def _check_gold(systems: Sequence[SystemResults], gold: Sequence[GoldLinks], given: Any) -> None:
    """Check that the gold links stay within the sentences as tokenized by each model.

    Raises:
        DataError: if a link points beyond its sentence; the links then belong to another text, or to another
            tokenization.
    """
    # Links that are given as a list have no file name.
    name = given if isinstance(given, Path | str) else "gold_links"
    for system in systems:
        for one, links, attention in zip(system.sentences, gold, system.attention, strict=False):
            if attention is not None:
                words = {"source": len(one.sentence.source), "reference": len(one.sentence.reference)}
                where = f"{name}:{one.sentence.line}"
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
    words = [(one.sentence.source, one.sentence.reference) for one in systems[0].sentences]
    for note in linker.unknown_word_notes(words):
        _log.warning("%s", note)
    return [add_word_links(system, linker.align) for system in systems]
