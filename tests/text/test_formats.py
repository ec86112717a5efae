"""Tests of bilingual files: each format gives the same segments, and bad files give one message."""

import gzip
import io
import logging
from types import SimpleNamespace

import pytest

from regard.errors import DataError, RegardError, UsageError
from regard.text.corpus import MAX_LINE_BYTES, CorpusConfig, read_file, read_segments
from regard.text.formats.base import FILE_FORMATS, FileOptions, Segment, register_file_format

PAIRS = [("Ein Hund.", "A dog."), ("Zwei & drei", "Two & three")]
XLIFF1 = """<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="f" source-language="de" target-language="en"><body><group id="g"><trans-unit id="a">
<source>Ein <g id="1">Hund</g><bpt id="2">&lt;b></bpt>.</source><target>A <mrk mtype="seg">dog</mrk>.</target>
<alt-trans><target>no</target></alt-trans></trans-unit><trans-unit id="n"><source>neu</source></trans-unit>
<trans-unit id="z"><source>x</source><target state-qualifier="fuzzy-match">y</target></trans-unit></group>
<trans-unit id="b"><source>Zwei<x id="3"/>&amp; drei</source><target>Two &#38; three</target></trans-unit>
</body></file></xliff>"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de" trgLang="en">
<file id="f"><unit id="u"><segment id="1"><source>Ein <pc id="p">Hund</pc>.</source><target>A dog.</target>
</segment><ignorable><source> </source></ignorable><segment id="2"><source>Zwei &amp;<ph id="q"/>drei</source>
<target>Two &amp; three</target></segment></unit><unit id="n"><segment state="initial"><source>x</source>
<target>x</target></segment></unit></file></xliff>"""
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="DE"/><body>
<tu><tuv xml:lang="de"><seg>x</seg></tuv></tu>
<tu tuid="a"><tuv xml:lang="en-GB"><seg>A <hi>dog</hi>.</seg></tuv><tuv lang="de"><seg>Ein Hund.</seg></tuv>
</tu><tu tuid="b"><tuv xml:lang="de"><seg>Zwei &amp; drei</seg>
</tuv>
<tuv xml:lang="en-gb"><seg><bpt i="1">&lt;i></bpt>Two &amp; three</seg></tuv></tu></body></tmx>"""
PO = r"""# A catalog
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

msgctxt "a"
msgid "Ein Hund."
msgid_plural "Zwei & drei"
msgstr[0] "A dog."
msgstr[1] ""
"Two &\n"
"three"

#, fuzzy
msgid "x"
msgstr "y"
"""
HOSTILE = '<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/hosts">]>'


@pytest.mark.parametrize(
    ("name", "text", "options", "lines", "ids", "skipped"),
    [
        ("t.tsv", "Ein Hund.\tA dog.\nZwei & drei\tTwo & three\n", {}, [1, 2], [None, None], ""),
        (
            "c.csv",
            'id,Target,Source\n\n7,A dog.,Ein Hund.\n8,"Two\n& three","Zwei & ""drei"""\n'.replace('""', ""),
            {},
            [3, 4],
            ["7", "8"],
            "1 empty",
        ),
        (
            "h.csv",
            "mt,src\nA dog.,Ein Hund.\nTwo & three,Zwei & drei\n",
            {"columns": ("src", "mt")},
            [2, 3],
            [None] * 2,
            "",
        ),
        (
            "j.jsonl",
            '{"id": 1, "t": {"de": "Ein\\nHund.", "en": "A dog."}}\n{"t": {"de": "x", "en": null}}\n'
            '{"t": {"de": "Zwei & drei", "en": "Two & three"}}\n',
            {"fields": ("t.de", "t.en")},
            [1, 3],
            ["1", None],
            "1 untranslated",
        ),
        ("p.po", PO, {}, [5, 5], ["a", "a"], "1 fuzzy"),
        ("x.xlf", XLIFF1, {}, [2, 6], ["a", "b"], "1 untranslated, 1 fuzzy"),
        ("y.xliff", XLIFF2, {"languages": ("de", "en")}, [2, 3], ["u/1", "u/2"], "1 untranslated"),
        ("m.tmx", TMX, {}, [3, 4], ["a", "b"], "1 untranslated"),
    ],
)
def test_every_format_gives_segments_with_lines_and_ids(
    tmp_path, caplog, monkeypatch, name, text, options, lines, ids, skipped
):
    path, options = tmp_path / f"{name}.gz", FileOptions(**options)
    path.write_bytes(gzip.compress(text.encode()))
    with caplog.at_level(logging.WARNING):
        segments = list(read_file(path, options))
    assert [(segment.source, segment.target) for segment in segments] == PAIRS
    assert [(segment.line, segment.id) for segment in segments] == [*zip(lines, ids, strict=True)]
    assert caplog.messages == ([f"{path}: skipped units: {skipped}"] if skipped else [])
    kind = next(kind for kind in FILE_FORMATS.names() if path.suffixes[0] in FILE_FORMATS.get(kind).suffixes)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    options = FileOptions(format=kind, columns=options.columns, fields=options.fields)
    assert list(read_file("-", options)) == segments


SEVERAL = TMX.replace(
    "</body>", '<tu><tuv xml:lang="de"><seg>u</seg></tuv><tuv xml:lang="fr"><seg>v</seg></tuv></tu></body>'
)


def test_languages_choose_one_of_several_pairs(tmp_path):
    (tmp_path / "m.tmx").write_text(SEVERAL)
    with pytest.raises(DataError, match=r"\(de, en-GB, fr\): choose .*--languages"):
        list(read_file(tmp_path / "m.tmx", FileOptions()))
    for pair, texts in ((("fr", "de"), [("v", "u")]), (("de", "en"), PAIRS)):
        segments = read_file(tmp_path / "m.tmx", FileOptions(languages=pair))
        assert [(segment.source, segment.target) for segment in segments] == texts


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        (
            "x.xlf",
            XLIFF1.replace("<target", "<note").replace("/target", "/note"),
            {},
            r"no text with a translation \(4 untranslated\)",
        ),
        ("m.tmx", TMX.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', HOSTILE), {}, "declares entities"),
        ("m.tmx", TMX.replace("dog", "&dog;"), {}, "line 3: the entity &dog; is refused"),
        ("m.tmx", TMX[:300], {}, "line 4: not well-formed XML"),
        ("m.tmx", XLIFF1, {}, "the root element is xliff, expected tmx"),
        ("p.po", PO.replace("msgctxt", "msgtext"), {}, r"not a PO file: .*line 5"),
        ("t.tsv", "a\tb\nc\n", {}, "line 2: 1 columns, expected 2"),
        ("t.tsv", "a\tb\nc\t\udce4\n", {}, r"line 2, byte 3: not UTF-8"),
        ("t.tsv", "x" * (MAX_LINE_BYTES + 1), {}, r"no text with a translation \(1 empty\)"),
        ("c.csv", "a,b\n", {"columns": ("x", "a")}, "no column 'x' in the header a, b"),
        ("c.csv", 'a,"b\n', {}, "line 1: unexpected end of data"),
        ("j.jsonl", '{"source": "a"}\n', {}, "line 1: the field target .* the fields are source"),
        ("j.jsonl", "[]\n", {}, "line 1: not a JSON object"),
        ("plain.de", "a\n", {}, r"second file, or .* \(--format\): "),
        ("m.tmx", TMX, {"columns": (1, 2)}, r"columns \(--columns\) has no effect"),
        ("m.tmx", TMX, {"format": "docx"}, "format 'docx': expected one of"),
    ],
)
def test_bad_files_and_options_give_one_message(tmp_path, name, text, options, message):
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RegardError, match=message):
        list(read_file(tmp_path / name, FileOptions(**options)))


@pytest.mark.parametrize(("text", "kind"), [(TMX, "xliff or tmx"), (PO, "po")])
def test_bilingual_files_are_not_read_as_plain_text(tmp_path, text, kind):
    (tmp_path / "text").write_text(text)
    with pytest.raises(DataError, match=f"not plain text: .* --format {kind}"):
        list(read_segments(CorpusConfig(source=str(tmp_path / "text"), target=str(tmp_path / "text"))))


def test_po_needs_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polib", None)
    (tmp_path / "p.po").write_text(PO)
    with pytest.raises(UsageError, match=r"pip install 'regard\[formats\]'"):
        list(read_file(tmp_path / "p.po", FileOptions()))


def test_a_registered_format_is_read_by_its_suffix(tmp_path, monkeypatch):
    monkeypatch.setattr(FILE_FORMATS, "_entries", dict(FILE_FORMATS._entries))

    @register_file_format("halves", suffixes=(".halves",))
    def read_halves(content):
        for number, line in enumerate(content.file, 1):
            source, _, target = line.decode().strip().partition(" = ")
            yield Segment(source, target, number)

    (tmp_path / "a.halves").write_text("a = b\n")
    assert list(read_file(tmp_path / "a.halves", FileOptions())) == [Segment("a", "b", 1)]
