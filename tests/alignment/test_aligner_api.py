"""`regard.align` and `regard.Aligner` give the links of `regard align`."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.errors import ConfigError, DataError, UsageError
from regard.extensions.phrasebook.corpus import write_splits


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("text")
    write_splits(directory, {"train": 200, "valid": 5, "test": 5}, seed=3)
    return directory


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_links_equal_those_of_the_command(text, tmp_path) -> None:
    files = [str(text / "train.de"), str(text / "train.en")]
    arguments = ["align", *files, "--model", "ibm2", "--output", str(tmp_path / "links"), "--seed", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    alignments = regard.align(*(read(Path(name)) for name in files), "ibm2")
    lines = [" ".join(f"{i}-{j}" for i, j in links) for links in alignments]
    assert lines == read(tmp_path / "links")


def test_saved_aligner_aligns_new_text_and_ignores_case_if_trained_so(text, tmp_path) -> None:
    sources, targets = read(text / "train.de"), read(text / "train.en")
    aligner = regard.Aligner.train(sources, targets, "hmm", lowercase=True, iterations=2)
    aligner.save(tmp_path / "aligner")
    new = read(text / "test.de"), read(text / "test.en")
    upper = [[line.upper().replace("SS", "ss") for line in side] for side in new]
    one, other = aligner.align(*new), regard.Aligner.load(tmp_path / "aligner").align(*upper)
    assert [links.tolist() for links in one] == [links.tolist() for links in other]
    assert other.sources[0][0].isupper() and len(one[:2]) == 2
    assert json.loads(json.dumps(one.to_dict()))["pairs"][0]["links"] == one[0].tolist()
    table = one.to_pandas()
    assert len(table) == sum(map(len, one)) and table.source_word[0] == one.sources[0][one[0][0, 0]]
    empty = aligner.align([""], ["a"])
    assert empty[0].shape == (0, 2) and empty[0].dtype == np.int64


def test_wrong_arguments_are_one_message() -> None:
    for call, error, message in (
        (lambda: regard.align(["a"], ["b", "c"]), DataError, "1 lines but targets has 2"),
        (lambda: regard.align(["a", ""], ["b", "c"], "ibm1"), DataError, "sources:2: the line is empty"),
        (lambda: regard.align("no such file", ["b"]), DataError, "no such file"),
        (lambda: regard.align(["a"], ["b"], "ibm9"), UsageError, "no aligner 'ibm9': expected .*ibm1"),
        (lambda: regard.align(["a"], ["b"], "ibm1", iteration=2), ConfigError, "known key is 'iterations'"),
        (lambda: regard.align(["a"], ["b"], "ibm1", symmetrize="x"), UsageError, "symmetrize='x'"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_fertilities_count_the_target_words_of_each_source_word(text) -> None:
    sources, targets = read(text / "train.de")[:50], read(text / "train.en")[:50]
    links = regard.align(sources, targets, "ibm2", symmetrize="forward")
    for counts, pair, source in zip(
        regard.fertilities(sources, targets, "ibm2"), links, sources, strict=True
    ):
        assert counts.tolist() == [(pair[:, 0] == i).sum() for i in range(len(source.split()))]
