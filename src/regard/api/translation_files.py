"""Translation and scoring of files for `regard translate` and `regard score`, and attention maps as text."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from regard.api.translator import load_with_search
from regard.config.extensions import require_hook
from regard.data.fertility import parse_bounds
from regard.errors import UsageError
from regard.generation.base import Capability
from regard.generation.config import Sampling
from regard.generation.lines import Line, enumerate_lines
from regard.generation.repair import Repair, configure_translator
from regard.generation.reranking import MBR
from regard.generation.translation import Translation
from regard.plot.terminal import terminal_map
from regard.text.corpus import CorpusConfig, decode_lines, read_lines, read_pairs
from regard.text.vocabulary import SPECIAL_TOKENS, UNK


@dataclass(frozen=True)
class LineFilesOptions:
    """The text to translate, and the files with demands on the translation of each line.

    Attributes:
        input: Source text, plain or compressed. Default: standard input.
        prefixes: File with the required beginnings of the translations, one line per source line.
        required_terms: File with required words and phrases, one line per source line, separated by tabs. An
            empty line requires none.
        fertilities: File with bounds of the total attention of source tokens, one line per source line. A
            line has one field per token or word: MAX, MIN:MAX, MIN: or -. The model's own fertility replaces
            a missing maximum. An empty line means the model's own fertilities.
        word_fertility: Bounds of the total attention of a source word in all lines: WORD=MAX or WORD=MIN:MAX.
    """

    input: Path | str | None = None
    prefixes: Path | str | None = None
    required_terms: Path | str | None = None
    fertilities: Path | str | None = None
    word_fertility: Sequence[str] = ()

    def read(self) -> Iterator[Line]:
        """Yield the numbered lines, with their prefixes, fertilities and required terms."""
        text = self.input
        lines = decode_lines(sys.stdin.buffer, "standard input") if text is None else read_lines(Path(text))
        paths = self.prefixes, self.fertilities, self.required_terms
        prefix, bounds, terms = (None if path is None else read_lines(Path(path)) for path in paths)
        names = str(self.prefixes), str(self.fertilities), str(self.required_terms)
        yield from enumerate_lines(lines, prefix, bounds, terms, names)

    @property
    def bounds_by_word(self) -> dict[str, tuple[float, float]]:
        """The minimum and maximum attention of words.

        Raises:
            UsageError: if an item of `word_fertility` has another form.
        """
        fertilities: dict[str, tuple[float, float]] = {}
        for option in self.word_fertility:
            # Split at the last "=", because the word itself may contain one.
            word, equals, bounds = option.rpartition("=")
            if not equals or not word:
                raise UsageError(f"--word-fertility {option!r}: expected WORD=MAX or WORD=MIN:MAX")
            fertilities[word] = parse_bounds(bounds, f"--word-fertility {option!r}")
        return fertilities


def translate_files(
    models: Sequence[Path | str],
    *,
    files: LineFilesOptions | None = None,
    num_return: int = 1,
    sampling: Sampling | None = None,
    mbr: MBR | None = None,
    repair: Repair | None = None,
    checker: Path | str | None = None,
    needs: Mapping[str, Capability] = {},
    on_message: Callable[[str], None] = lambda message: None,
    **settings: Any,
) -> Iterator[Translation]:
    """Translate a file, one block of lines at a time, in order and in bounded memory.

    Args:
        models: Model directory. Several directories form an ensemble.
        files: The text, and the demands on its translations.
        num_return: Number of translations returned per sentence. With more than 1, the format is LINE |||
            TEXT ||| SCORE, with lines counted from 0. In a text with ||| or a character reference, & and |
            are written as &amp; and &#124;.
        sampling: Sample translations from the model instead of beam search.
        mbr: Minimum Bayes risk decoding: choose from the beam, or from the samples of --sample, by expected
            utility: bleu or chrf. Scores in the output are expected utilities.
        repair: Check the translations with --checker, and translate sentences again whose translation
            probably omits a word. Each change is reported. --tokens-output and --attention-output contain
            the translation and the probabilities before and after.
        checker: Directory of a model of good translations (`regard check --save-checker`), with which
            translations are checked for omissions, additions and repetitions.
        needs: Capabilities that the caller needs, by the name of its option.
        on_message: Function that is called with each message.
        settings: Arguments of `regard.load`, such as `device` and `beam_size`.

    Raises:
        UsageError: if the model does not support an argument, or arguments contradict each other.
        DataError: if a file cannot be read, or the numbers of lines differ.
    """
    files = files or LineFilesOptions()
    if sampling is not None and files.required_terms is not None:
        raise UsageError("--required-terms needs beam search, so it cannot be used with --sample")
    words = files.bounds_by_word
    judge = None if checker is None else require_hook("checker", "check").load(checker)
    model, search = load_with_search(models, {"num_threads": None, **settings})
    line_files: list[tuple[str, Capability, object]] = [
        ("--prefixes", "prefix", files.prefixes),
        ("--fertilities", "fertility", files.fertilities),
        ("--required-terms", "terms", files.required_terms),
    ]
    for flag, capability, file in line_files:
        if file is not None:
            model.backend.require(capability, flag)
    for flag, capability in needs.items():
        model.backend.require(capability, flag)
    options: dict[str, Any] = {"sampling": sampling, "mbr": mbr, "repair": repair, "checker": judge}
    translator = configure_translator(model.backend, words, **search, num_return=num_return, **options)
    return _with_messages(translator.translate(files.read()), repair, list(words), on_message)


def _with_messages(
    results: Iterator[Translation], repair: Repair | None, words: list[str], on_message: Callable[[str], None]
) -> Iterator[Translation]:
    """Yield the translations, with messages on repairs, missing words and unknown tokens."""
    threshold = 0.0 if repair is None else repair.threshold
    missing = set(words)
    num_tokens = num_unknown = num_checked = num_likely = num_changed = 0
    for result in results:
        if (record := result.repair) is not None:
            num_checked += 1
            num_likely += max(record.before.omitted, default=0.0) >= threshold
            num_changed += record.changed
            if record.changed:
                shares = zip(record.before.source_words, record.before.omitted, strict=True)
                omitted = ", ".join(f"{word} ({share:.2f})" for word, share in shares if share >= threshold)
                on_message(
                    f"line {result.number} is repaired: {omitted} probably omitted; probability of an "
                    f"omission {record.before.omission:.2f} before, {record.after.omission:.2f} after\n"
                    f"  - {record.text_before}\n  + {result.text}"
                )
        if missing:
            missing.difference_update(result.source_words)
        num_tokens += len(result.tokens)
        num_unknown += result.tokens.count(SPECIAL_TOKENS[UNK])
        yield result
    if repair is not None:
        on_message(
            f"{num_checked:,} sentences checked, {num_likely:,} likely omit a word, {num_changed:,} changed"
        )
    for word in words:
        if word in missing:
            on_message(f"--word-fertility {word}: this word does not occur in the text")
    if num_unknown:
        share = 100 * num_unknown / num_tokens
        on_message(f"{num_unknown:,} of {num_tokens:,} generated tokens are unknown ({share:.2f} %)")


def attention_text(translation: Translation) -> RenderableType:
    """Return the attention map of a translation for the console of rich."""
    return terminal_map(translation.attention_map, translation.source_tokens, translation.tokens)


def score_files(
    model: Path | str,
    source: Path | str,
    target: Path | str,
    *,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    **settings: Any,
) -> Iterator[Translation]:
    """Yield the translations of a file with their scores, one after another; see `Translator.score`.

    Args:
        model: Model directory.
        source: Source text, plain or compressed.
        target: Translations to score, one line per source line.
        length_penalty: Exponent alpha of the length penalty ((5 + length) / 6)^alpha of Wu et al. (2016).
        coverage_penalty: Weight beta of the coverage penalty of Wu et al. (2016), added to the score.
        settings: Arguments of `regard.load`, such as `device` and `coverage_epsilon`.

    Raises:
        UsageError: if the models do not support an argument.
        DataError: if a file cannot be read or does not match the others.
    """
    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    loaded, search = load_with_search([model], settings | penalties)
    loaded.backend.require("score", "regard score")
    pairs = read_pairs(CorpusConfig(source=str(source), target=str(target)))
    yield from loaded.backend.with_search(search).score(pairs)
