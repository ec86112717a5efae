"""Tests of METEOR: scores against the reference program, and input that could break its protocol."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from regard.errors import UsageError
from regard.metrics.meteor import count_meteor, find_jar, find_java

REFERENCES = [
    "The cat is sitting on the mat .",
    "a dog barked loudly in the night!",
    "It is 5.3 km away.",
    "In addition, we are moreover glad of the house.",
    "Nothing.",
    "This one is said word for word.",
    "a naïve café in Łódź",
]
HYPOTHESES = [
    "A cat sat on mat .",
    "At night a hound barks loud",
    "It's 5.3 km away, he said.",
    "Furthermore, we are glad about the building in addition.",
    "",
    "This one is said word for word.",
    "naïve Café of Łódź",
]
SECOND = ["A cat sits upon some mat .", *["another reference"] * 5, "a café"]

# Text that could break lines or fields of the protocol, and its harmless equivalent.
SPECIAL = ["a ||| b", "|||| the\tcat", "the\ncat\r\nsat", "\u2028the\x85cat\x0b", "|||", " ", "EVAL ||| 1"]
PLAIN = ["a | | | b", "| | | | the cat", "the cat sat", "the cat", "| | |", "", "EVAL | | | 1"]


def unavailable():
    """Return the reason that METEOR cannot run here, or an empty string."""
    try:
        find_java(), find_jar()
    except UsageError as error:
        return str(error)
    return ""


needs_meteor = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


@pytest.fixture(scope="module")
def all_counts():
    """Return the counts of all sentences above from a single run, because the program starts slowly."""
    references = ["the cat ||| sat\n", *["the cat sat"] * 6] * 2
    return count_meteor([*HYPOTHESES, *SPECIAL, *PLAIN], [[*REFERENCES, *references], [*SECOND, *references]])


@pytest.fixture(scope="module")
def counts(all_counts):
    return replace(all_counts, rows=all_counts.rows[: len(HYPOTHESES)])


def run_program(tmp_path, *references):
    """Return the scores of `HYPOTHESES` and of the corpus, computed by the METEOR program from files."""
    lines = [line for lines in zip(*references, strict=True) for line in lines]
    for name, text in (("hyp", HYPOTHESES), ("ref", lines)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    command = [find_java(), "-Xmx2G", "-jar", str(find_jar()), str(tmp_path / "hyp"), str(tmp_path / "ref")]
    command += ["-l", "en", "-norm", "-q", "-r", str(len(references))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return np.array([float(score) for score in done.stderr.split()]), float(done.stdout)


@needs_meteor
@pytest.mark.slow
def test_corpus_and_sentence_scores_equal_the_program(counts, tmp_path):
    each, total = run_program(tmp_path, REFERENCES, SECOND)
    assert counts.corpus_score() == pytest.approx(100 * total, abs=1e-9)
    np.testing.assert_allclose(counts.sentence_scores(), 100 * each, atol=1e-9)
    # An empty sentence and an identical one.
    assert counts.sentence_scores()[4:6] == pytest.approx([0, 100])
    assert counts.name == "METEOR"
    assert counts.signature == "nrefs:2|lang:en|norm:yes|task:rank|version:1.5"


@needs_meteor
@pytest.mark.slow
def test_bars_tabs_and_line_breaks_only_separate_words(all_counts):
    _, special, plain = np.split(all_counts.rows, [len(HYPOTHESES), len(HYPOTHESES) + len(SPECIAL)])
    np.testing.assert_array_equal(special, plain)
    assert special[2:4, 0].tolist() == [3, 2]


def test_missing_java_and_missing_package_raise_with_instructions(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(UsageError, match=re.escape("pip install 'regard[meteor]'")):
        find_jar()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"METEOR needs Java.*JAVA_HOME or on PATH: install"):
        find_java()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("cat > /dev/null; echo 'Error: no such thing' >&2; exit 1", "status 1 .*Error: no such thing"),
        ("cat > /dev/null", "status 0 for 2 sentences: no output"),
        ("cat > /dev/null; echo hello; echo", "status 0 for 2 sentences: hello"),
        ("exit 3", "status 3"),
    ],
)
def test_failing_java_raises_with_its_output(tmp_path, monkeypatch, script, message):
    program, jar = tmp_path / "bin" / "java", tmp_path / "pycocoevalcap" / "meteor" / "meteor-1.5.jar"
    for path in (program, jar, jar.parent / "data" / "paraphrase-en.gz"):
        path.parent.mkdir(parents=True)
        path.touch()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert find_jar() == jar
    with pytest.raises(UsageError, match=message):
        count_meteor(["a", "b"], [["a", "b"]])
