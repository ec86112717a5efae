"""Findings in XLIFF files: the places and values of the issues, and everything else as it was."""

from pathlib import Path

import lxml.etree as etree
import pytest
from command_runs import run

import regard
from regard.errors import UsageError
from regard.extensions.check.findings import annotate_xliff, find_errors
from regard.text.formats.base import FileOptions

ITS = "{http://www.w3.org/2005/11/its}"
XLIFF1 = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- a job -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:unused" xmlns:y="urn:used">
<file original="f" source-language="de" target-language="en" datatype="plaintext"><body>
<trans-unit id="a" y:z="1"><source>Ein Hund schläft.</source>
<target xml:lang="en">A  <g id="1">dog</g><!-- c --> a <mrk mtype="seg">dog</mrk> sleeps &amp; a  dog
sleeps.</target>
<note>&lt;b&gt;</note></trans-unit>
<trans-unit id="b"><source>Neu</source></trans-unit>
<trans-unit id="c"><source>Die Frau liest ein Buch.</source>
<target>Die <x id="2"/>Frau liest ein Buch.</target></trans-unit>
<trans-unit id="d"><source>Gut.</source><target>Good.</target></trans-unit>
</body></file></xliff>
"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="de" trgLang="en">
<file id="f"><unit id="u"><segment id="1"><source>Ein Hund schläft.</source>
<target>A dog a dog <pc id="p">a <ph id="q"/>dog</pc> sleeps.</target></segment>
<ignorable><source> </source></ignorable><segment id="2"><source>Gut.</source><target>Good.</target>
</segment></unit></file></xliff>"""


@pytest.fixture
def job(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.xlf"


def without_issues(document: str) -> str:
    """Return the canonical form of a document without `mrk` elements of ITS and the version of ITS."""
    root = etree.fromstring(document.encode())
    for mark in root.xpath("//*[@i:annotatorsRef]", namespaces={"i": ITS[1:-1]}):
        mark.tag = "removed"
    etree.strip_tags(root, "removed")
    root.attrib.pop(f"{ITS}version", None)
    return canonical(root)


def canonical(root) -> str:
    return etree.canonicalize(etree.tostring(root.getroottree(), encoding="unicode"), with_comments=True)


def issues(document: str) -> list[tuple[str, ...]]:
    marks = etree.fromstring(document.encode()).iter("{*}mrk")
    names = [f"{ITS}locQualityIssue{name}" for name in ("Type", "Severity", "Comment")]
    found = [mark for mark in marks if mark.get(names[0])]
    return [("".join(mark.itertext("*")), *(mark.get(name) for name in names)) for mark in found]


def test_issues_are_around_their_text_and_all_else_is_unchanged(job) -> None:
    job.write_bytes(XLIFF1.encode("latin-1"))
    command = "check job.xlf --detector rules --fail-on 0.5 --findings"
    assert run(*f"{command} new.xlf".split()).exit_code == 3
    new = Path("new.xlf").read_text(encoding="utf-8")
    assert without_issues(new) == canonical(etree.fromstring(XLIFF1.encode("latin-1")))
    assert new.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<!-- a job --><xliff ')
    # The whole side has the second issue, because its text has an inline tag within it.
    assert [issue[:3] for issue in issues(new)] == [
        ("A  dog a dog sleeps & a  dog\nsleeps.", "duplication", "50"),
        ("a  dog\nsleeps", "duplication", "50"),
        ("Die Frau liest ein Buch.", "untranslated", "100"),
    ]
    assert issues(new)[1][3] == "Probably repeated: a dog sleeps (0.90)"
    assert "xmlns:x" in new and new.count("xmlns:its") == 1 and 'mtype="x-its"' in new
    # A second run replaces the issues, and a run without findings removes them.
    run(*"check new.xlf --detector rules --findings again.xlf".split())
    assert Path("again.xlf").read_bytes() == Path("new.xlf").read_bytes()
    run(*"check new.xlf --detector rules --accept ok".split())
    run(*"check new.xlf --detector rules --ignore ok --findings none.xlf".split())
    assert not issues(Path("none.xlf").read_text()) and without_issues(new) == without_issues(
        Path("none.xlf").read_text()
    )


def test_xliff_2_has_annotations_of_the_its_module(job) -> None:
    job.write_text(XLIFF2, encoding="utf-8")
    run(*"check job.xlf --detector repetition --findings new.xlf.gz".split())
    run(*"check new.xlf.gz --detector repetition --findings again.xlf".split())
    new = Path("again.xlf").read_text(encoding="utf-8")
    assert without_issues(new) == canonical(etree.fromstring(XLIFF2))
    marks = etree.fromstring(new.encode()).findall(".//{*}mrk")
    assert [mark.get("type") for mark in marks] == ["its:generic"] * len(marks) and marks
    assert len({mark.get("id") for mark in marks}) == len(marks)
    assert regard.check("again.xlf").rows() == regard.check("job.xlf").rows()


def test_every_span_of_words_is_marked_in_its_place(job) -> None:
    """Spans within one text are marked exactly; overlapping ones and those with tags, as a whole."""
    job.write_text(XLIFF2, encoding="utf-8")
    (finding, *_), _ = (
        list(find_errors(each)) for each in regard.check(job, detector="repetition").sentences
    )
    text = "A dog a dog a dog sleeps."
    ends = [0, 2, 6, 8, 12, 14, 18, 24]
    for start in ends[:-1]:
        for end in (end - 1 for end in ends if end > start):
            place = {"start": start, "end": end, "text": text[start:end]}
            one = type(finding)(**{**vars(finding), **place})
            new = annotate_xliff(job, FileOptions(), [[one, one], []])
            assert without_issues(new) == canonical(etree.fromstring(XLIFF2))
            marked = {" ".join(issue[0].split()) for issue in issues(new)}
            crosses = (start < 12 < end) or (start < 14 < end) or (start < 18 < end)
            assert marked == {text if crosses else text[start:end]}, (start, end)


def test_two_files_have_no_xliff(job) -> None:
    job.with_name("de").write_text("Gut.\n")
    with pytest.raises(UsageError, match=r"--findings new\.xlf is for one XLIFF file with"):
        run(*"check de de --findings new.xlf".split())
