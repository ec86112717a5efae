"""METEOR 1.5, Denkowski & Lavie (2014): the authors' program, run with Java; English only.

The program aligns each output with its references by equal words, stems, synonyms and paraphrases, and
prints what it counted. Of counts summed over a corpus the score is, with delta between content and function
words and a weight w for each of the four kinds of match,

    P, R  = sum over kinds of w * (delta * content matches + (1 - delta) * function matches)
            / (delta * content words + (1 - delta) * function words)   of the output, of the reference
    score = P * R / (alpha * P + (1 - alpha) * R) * (1 - gamma * (chunks / matched words) ** beta)

(their Eq. 1 to 5; the parameters are those of its default task, rank). The program and its table of
paraphrases come with the package pycocoevalcap, which has the data for English and for no other language.
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

from regard.data.files import file_digest
from regard.data.spacing import join_spaces
from regard.errors import UsageError
from regard.metrics.counts import Score, SentenceCounts, check_lengths

__all__ = ["count_meteor", "find_jar", "find_java", "meteor", "score_counts"]

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
# Of a match by equal word, stem, synonym, paraphrase.
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])

# What runs, and what it reads: SHA-256 of the files of pycocoevalcap 1.2, by their path beside the program.
_DIGESTS = {
    "meteor-1.5.jar": "1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
    "data/paraphrase-en.gz": "c147ac7d2c91f2fbb3ad31e4b352235061eb83145e0434daf217ee9ca5975f48",
}
# Seconds that Java may take: to start and read its paraphrases, and for each sentence. An idle machine needs
# a tenth of them.
_START_SECONDS, _LINE_SECONDS = 300.0, 0.5

# What the program counts in a sentence: lengths of output and reference; function words of both; then, for
# each kind of match, content words of both and function words of both; chunks; matched words of both.
_COLUMNS = 23
_CHUNKS = 20


def meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    normalize: bool = True,
    language: str = "en",
) -> Score:
    """METEOR of a corpus, out of 100; higher is better.

    Args:
        hypotheses: One output a sentence.
        references: One or more sets of references, each as long as `hypotheses`; the best one counts.
        normalize: Let the program tokenise, normalise punctuation and ignore case, as its authors recommend;
            without it, words are taken as they stand, case and all.
        language: `en`: the data that can be installed is for English alone.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the language is another one, or Java or the program is not there, is not the authors',
            fails or does not end.
    """
    return count_meteor(hypotheses, references, normalize, language).total()


def count_meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    normalize: bool = True,
    language: str = "en",
) -> SentenceCounts:
    """What the program counts in each sentence; arguments and errors as those of `meteor`."""
    if language != "en":
        raise UsageError(f"METEOR's data is for English alone: expected language 'en', got {language!r}")
    check_lengths(hypotheses, references)
    lines = [
        " ||| ".join(("SCORE", *map(_harmless, truths), _harmless(hypothesis)))
        for hypothesis, *truths in zip(hypotheses, *references, strict=True)
    ]
    rows = _single_chunks_removed(_run(lines, normalize))
    norm = "yes" if normalize else "no"
    signature = f"nrefs:{len(references)}|lang:{language}|norm:{norm}|task:rank|version:1.5"
    return SentenceCounts("METEOR", signature, rows, score_counts)


def find_java() -> str:
    """The path of Java: that of JAVA_HOME, or else the first on PATH.

    Raises:
        UsageError: if there is none; says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = (shutil.which("java", path=str(Path(home) / "bin")) if home else None) or shutil.which("java")
    if java is None:
        raise UsageError(
            "METEOR needs Java, and there is no `java` in JAVA_HOME or on PATH: install a Java runtime, "
            "8 or newer (Debian, Ubuntu: apt-get install default-jre-headless)"
        )
    return java


def find_jar() -> Path:
    """The path of METEOR's program, whose content is verified: it is run as it is.

    Raises:
        UsageError: if pycocoevalcap is not installed or lacks it, or a file is not the one that METEOR 1.5
            was published with; says what to install.
    """
    # Found, not imported: importing it would load what it needs for images.
    package = importlib.util.find_spec("pycocoevalcap")
    for folder in (package.submodule_search_locations or ()) if package else ():
        jar = Path(folder) / "meteor" / "meteor-1.5.jar"
        if jar.is_file() and _paraphrases(jar).is_file():
            _verify(jar)
            return jar
    raise UsageError("METEOR's program comes with the package pycocoevalcap: pip install 'regard[meteor]'")


def _verify(jar: Path) -> None:
    """Raises UsageError if the program, or its data, is not what was published."""
    for name, expected in _DIGESTS.items():
        path = jar.parent / name
        if file_digest(path) != expected:
            raise UsageError(
                f"METEOR: {path} is not the published file (its SHA-256 is another one), and is not run: "
                "install it anew with pip install --force-reinstall --no-deps pycocoevalcap==1.2"
            )


def _paraphrases(jar: Path) -> Path:
    return jar.with_name("data") / "paraphrase-en.gz"


def _harmless(text: str) -> str:
    """Text on one line that holds no `|||`, which parts the fields of the program's input."""
    return re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), join_spaces(text))


def _run(lines: Sequence[str], normalize: bool) -> Float[np.ndarray, "n 23"]:
    java, jar = find_java(), find_jar()
    # The language of the user's system decides what lower case is (in Turkish not that of English).
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"]
    command += ["-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-a", str(_paraphrases(jar))]
    text = "".join(f"{line}\n" for line in lines)
    seconds = _START_SECONDS + _LINE_SECONDS * len(lines)
    try:
        done = subprocess.run(
            command + (["-norm"] if normalize else []),
            input=text.encode(errors="replace"),
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"METEOR: {java} did not end within {seconds:g} s for {len(lines)} sentences, and was stopped"
        ) from None
    except OSError as error:
        raise UsageError(f"METEOR: {java} cannot be run: {error.strerror or error}") from None
    answers = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        rows = np.array([[float(number) for number in answer.split()] for answer in answers])
        if done.returncode != 0 or rows.shape != (len(lines), _COLUMNS):
            raise ValueError
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip() or "\n".join(answers[:1]) or "it said nothing"
        raise UsageError(
            f"METEOR: {java} ended with status {done.returncode} and {len(answers)} answers to {len(lines)} "
            f"sentences: {said.splitlines()[0]}"
        ) from None
    return rows


def _single_chunks_removed(rows: Float[np.ndarray, "n 23"]) -> Float[np.ndarray, "n 23"]:
    """Counts with no chunk where output and reference match whole and in order, as the program sums them."""
    output, reference = rows[:, 4:_CHUNKS:2].sum(axis=1), rows[:, 5:_CHUNKS:2].sum(axis=1)
    whole = (output == rows[:, 0]) & (reference == rows[:, 1]) & (rows[:, _CHUNKS] == 1)
    counts = rows.copy()
    counts[whole, _CHUNKS] = 0
    return counts


def score_counts(summed: Float[np.ndarray, "r 23"]) -> Float[np.ndarray, "r"]:
    """METEOR of rows of summed counts."""
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
