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
from regard.metrics.base import MetricInput, SentenceCounts, check_references, register_metric
from regard.text.words import normalize_whitespace

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
# Weights of exact, stem, synonym and paraphrase matches.
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])

# Counts per sentence: lengths of output and reference; function words of both; then, for each kind of match,
# content words of both and function words of both; chunks; matched words of both.
_COLUMNS = 23
_CHUNKS = 20
_PARAPHRASES = "data/paraphrase-en.gz"


def count_meteor(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> SentenceCounts:
    """Return the program's counts of each sentence, from which METEOR (0 to 100, higher is better) follows.

    The program tokenizes, normalizes punctuation and ignores case, as its authors recommend. Of several
    references, the best one counts.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if Java or the program is missing, or the program fails.
    """
    check_references(hypotheses, references)
    # `|||` separates the fields of the program's input.
    plain = [
        [re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), normalize_whitespace(text)) for text in texts]
        for texts in (*references, hypotheses)
    ]
    lines = [" ||| ".join(("SCORE", *fields)) for fields in zip(*plain, strict=True)]
    rows = _run(lines)
    matched = rows[:, 4:_CHUNKS].reshape(len(rows), -1, 2).sum(axis=1)  # of the output, of the reference
    # The program counts no chunk where output and reference match entirely.
    rows[(matched == rows[:, :2]).all(axis=1) & (rows[:, _CHUNKS] == 1), _CHUNKS] = 0
    signature = f"nrefs:{len(references)}|lang:en|norm:yes|task:rank|version:1.5"
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
    """Return the path of METEOR's program.

    Raises:
        UsageError: if pycocoevalcap is not installed or incomplete; explains how to install it.
    """
    # The package is located without an import, which would load its image dependencies.
    package = importlib.util.find_spec("pycocoevalcap")
    for directory in (package.submodule_search_locations or ()) if package else ():
        jar = Path(directory) / "meteor" / "meteor-1.5.jar"
        if jar.is_file() and (jar.parent / _PARAPHRASES).is_file():
            return jar
    raise UsageError("METEOR's program comes with the package pycocoevalcap: pip install 'regard[meteor]'")


def _run(lines: Sequence[str]) -> Float[np.ndarray, "n 23"]:
    """Run the program on input lines and return its counts."""
    java, jar = find_java(), find_jar()
    # The system's locale affects lowercasing (Turkish differs from English), so it is set explicitly.
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"]
    command += ["-jar", str(jar), *"- - -stdio -l en -norm -a".split(), str(jar.parent / _PARAPHRASES)]
    text = "".join(f"{line}\n" for line in lines)
    try:
        process = subprocess.run(
            command, input=text.encode(errors="replace"), capture_output=True, check=False
        )
    except OSError as error:
        raise UsageError(f"METEOR: {java} cannot be run: {error.strerror or error}") from None
    output, errors = (stream.decode("utf-8", "replace") for stream in (process.stdout, process.stderr))
    try:
        rows = np.array([[float(number) for number in counts.split()] for counts in output.splitlines()])
        if process.returncode != 0 or rows.shape != (len(lines), _COLUMNS):
            raise ValueError
    except ValueError:
        first = (errors.strip() or output or "no output").splitlines()[0]
        raise UsageError(
            f"METEOR: {java} failed with status {process.returncode} for {len(lines)} sentences: {first}"
        ) from None
    return rows


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
