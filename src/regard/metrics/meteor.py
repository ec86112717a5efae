"""METEOR 1.5, Denkowski & Lavie (2014): the authors' Java program, for English only.

The program aligns each output with its references by exact, stem, synonym and paraphrase matches, and prints
counts. The score is computed from counts summed over the corpus. With delta the weight of content words
relative to function words, and a weight w for each of the four kinds of match:

    P, R  = sum over kinds of w * (delta * content matches + (1 - delta) * function matches)
            / (delta * content words + (1 - delta) * function words)   of the output, of the reference
    score = P * R / (alpha * P + (1 - alpha) * R) * (1 - gamma * (chunks / matched words) ** beta)

(their Eq. 1 to 5; the parameters are those of the default task, rank). The program and its paraphrase table
are part of the package pycocoevalcap, which has data for English only.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.errors import UsageError
from regard.metrics.base import CorpusScore, MetricInput, SentenceCounts, check_references, register_metric
from regard.text.reading import file_digest
from regard.text.whitespace import normalize_whitespace

__all__ = ["count_meteor", "find_jar", "find_java", "meteor", "meteor_from_counts"]

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
# Weights of exact, stem, synonym and paraphrase matches.
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])

# SHA-256 of the program and its data in pycocoevalcap 1.2, by path relative to the program's directory.
_DIGESTS = {
    "meteor-1.5.jar": "1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
    "data/paraphrase-en.gz": "c147ac7d2c91f2fbb3ad31e4b352235061eb83145e0434daf217ee9ca5975f48",
}
# Time limit of Java in seconds: for starting and reading the paraphrases, and per sentence. An idle machine
# needs a tenth of it.
_START_SECONDS, _LINE_SECONDS = 300.0, 0.5

# Counts per sentence: lengths of output and reference; function words of both; then, for each kind of match,
# content words of both and function words of both; chunks; matched words of both.
_COLUMNS = 23
_CHUNKS = 20


def meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    normalize: bool = True,
    language: str = "en",
) -> CorpusScore:
    """Compute METEOR of a corpus, from 0 to 100; higher is better.

    Args:
        hypotheses: One output per sentence.
        references: One or more sets of references, each as long as `hypotheses`. The best reference counts.
        normalize: Whether the program tokenizes, normalizes punctuation and ignores case, as its authors
            recommend. Otherwise words are compared unchanged, including case.
        language: Must be `en`, because the data that can be installed is for English only.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the language is not English, or if Java or the program is missing, not the authors',
            fails or does not end.
    """
    return count_meteor(hypotheses, references, normalize, language).corpus_score()


def count_meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    normalize: bool = True,
    language: str = "en",
) -> SentenceCounts:
    """Return the program's counts of each sentence. The arguments and errors are those of `meteor`."""
    if language != "en":
        raise UsageError(f"METEOR is available for English only: expected language 'en', got {language!r}")
    check_references(hypotheses, references)
    lines = [
        " ||| ".join(("SCORE", *map(_escape_separators, sentence_references), _escape_separators(hypothesis)))
        for hypothesis, *sentence_references in zip(hypotheses, *references, strict=True)
    ]
    rows = _zero_single_chunks(_run(lines, normalize))
    norm = "yes" if normalize else "no"
    signature = f"nrefs:{len(references)}|lang:{language}|norm:{norm}|task:rank|version:1.5"
    return SentenceCounts("METEOR", signature, rows, meteor_from_counts)


@register_metric("meteor", label="METEOR")
def _meteor(data: MetricInput) -> SentenceCounts:
    return count_meteor(data.outputs, data.references)


def find_java() -> str:
    """Return the path of Java, from JAVA_HOME or else the first on PATH.

    Raises:
        UsageError: if there is none; explains how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    java = (shutil.which("java", path=str(Path(home) / "bin")) if home else None) or shutil.which("java")
    if java is None:
        raise UsageError(
            "METEOR needs Java, but there is no `java` in JAVA_HOME or on PATH: install a Java runtime, "
            "8 or newer (Debian, Ubuntu: apt-get install default-jre-headless)"
        )
    return java


def find_jar() -> Path:
    """Return the path of METEOR's program after verifying its checksum.

    Raises:
        UsageError: if pycocoevalcap is not installed or incomplete, or a file differs from that of METEOR
            1.5; explains how to install it.
    """
    # The package is located without an import, which would load its image dependencies.
    package = importlib.util.find_spec("pycocoevalcap")
    for directory in (package.submodule_search_locations or ()) if package else ():
        jar = Path(directory) / "meteor" / "meteor-1.5.jar"
        if jar.is_file() and _paraphrases(jar).is_file():
            _verify(jar)
            return jar
    raise UsageError("METEOR's program comes with the package pycocoevalcap: pip install 'regard[meteor]'")


def _verify(jar: Path) -> None:
    """Raise UsageError if the program or its data differs from the published files."""
    for name, expected in _DIGESTS.items():
        path = jar.parent / name
        if file_digest(path) != expected:
            raise UsageError(
                f"METEOR: {path} is not the published file (its SHA-256 differs) and will not be run: "
                "reinstall it with pip install --force-reinstall --no-deps pycocoevalcap==1.2"
            )


def _paraphrases(jar: Path) -> Path:
    """Return the path of the paraphrase table."""
    return jar.with_name("data") / "paraphrase-en.gz"


def _escape_separators(text: str) -> str:
    """Return text on one line without `|||`, which separates the fields of the program's input."""
    return re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), normalize_whitespace(text))


def _run(lines: Sequence[str], normalize: bool) -> Float[np.ndarray, "n 23"]:
    """Run the program on input lines and return its counts."""
    java, jar = find_java(), find_jar()
    # The system's locale affects lowercasing (Turkish differs from English), so it is set explicitly.
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"]
    command += ["-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-a", str(_paraphrases(jar))]
    text = "".join(f"{line}\n" for line in lines)
    seconds = _START_SECONDS + _LINE_SECONDS * len(lines)
    try:
        process = subprocess.run(
            command + (["-norm"] if normalize else []),
            input=text.encode(errors="replace"),
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"METEOR: {java} was stopped: it did not end within {seconds:g} s for {len(lines)} sentences"
        ) from None
    except OSError as error:
        raise UsageError(f"METEOR: {java} cannot be run: {error.strerror or error}") from None
    output_lines = process.stdout.decode("utf-8", "replace").splitlines()
    try:
        rows = np.array([[float(number) for number in line_counts.split()] for line_counts in output_lines])
        if process.returncode != 0 or rows.shape != (len(lines), _COLUMNS):
            raise ValueError
    except ValueError:
        output = (
            process.stderr.decode("utf-8", "replace").strip() or "\n".join(output_lines[:1]) or "no output"
        )
        raise UsageError(
            f"METEOR: {java} ended with status {process.returncode} and {len(output_lines)} lines of output "
            f"for {len(lines)} sentences: {output.splitlines()[0]}"
        ) from None
    return rows


def _zero_single_chunks(rows: Float[np.ndarray, "n 23"]) -> Float[np.ndarray, "n 23"]:
    """Set the number of chunks to 0 where output and reference match entirely, as the program does."""
    output, reference = rows[:, 4:_CHUNKS:2].sum(axis=1), rows[:, 5:_CHUNKS:2].sum(axis=1)
    whole = (output == rows[:, 0]) & (reference == rows[:, 1]) & (rows[:, _CHUNKS] == 1)
    counts = rows.copy()
    counts[whole, _CHUNKS] = 0
    return counts


def meteor_from_counts(summed: Float[np.ndarray, "r 23"]) -> Float[np.ndarray, "r"]:
    """Return METEOR of rows of summed counts."""
    content_share = np.array([_DELTA, 1 - _DELTA])
    matches = summed[:, 4:_CHUNKS].reshape(-1, 4, 2, 2)  # (r, kind, content or function, output or reference)
    matched = np.einsum("rkcs,k,c->rs", matches, _WEIGHTS, content_share)
    function = summed[:, 2:4]
    length = _DELTA * (summed[:, :2] - function) + (1 - _DELTA) * function  # (r, output or reference)
    precision, recall = (matched / np.where(length > 0, length, 1)).T
    weighted = _ALPHA * precision + (1 - _ALPHA) * recall
    mean = precision * recall / np.where(weighted > 0, weighted, 1)
    words = summed[:, 21:].mean(axis=1)
    fragmentation = summed[:, _CHUNKS] / np.where(words > 0, words, 1)
    return 100 * np.maximum(mean * (1 - _GAMMA * fragmentation**_BETA), 0)
