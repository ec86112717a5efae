"""Bilingual XML files: XLIFF 1.2 and 2, and TMX 1.4.

The text of a segment is that without inline tags; text within `g`, `mrk`, `pc` and `hi` belongs to it. Files
are parsed element by element. Entities that a document declares are refused, since they may expand without
limit or name other files, and neither a DTD nor anything from a network is loaded.
"""

from collections.abc import Iterator
from typing import Any

import lxml.etree as etree

from regard.errors import DataError
from regard.text.compression import decompress
from regard.text.formats.base import FileContent, Segment, register_file_format
from regard.text.words import normalize_whitespace

_TEXT_TAGS = ("g", "mrk", "pc", "hi")
"""Inline elements whose content is text of the segment."""
_PLACEHOLDERS = ("x", "ph")
"""Inline elements that stand for content, such as a line break, and so separate words."""
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@register_file_format(
    "xliff", suffixes=(".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), options=("languages",)
)
def read_xliff(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of an XLIFF file.

    A unit is untranslated if it has no target, is in the state `new`, `needs-translation` (1.2) or `initial`
    (2), or is not to be translated. Targets with the state qualifier `fuzzy-match` are fuzzy.
    """
    return (segment for _, segment in xliff_segments(content))


def xliff_segments(content: FileContent, keep: bool = False) -> Iterator[tuple[Any, Segment]]:
    """Yield the segments of an XLIFF file with their elements, which stay in the document with `keep`."""
    wanted = pair = content.options.languages
    for unit in _read_units(content, "xliff", ("trans-unit", "unit"), keep):
        root = unit.getroottree().getroot()
        file = next(unit.iterancestors("{*}file"), root)
        languages = (
            file.get("source-language") or root.get("srcLang", ""),
            file.get("target-language") or root.get("trgLang", ""),
        )
        pair = pair or languages
        if not all(map(_is_language, languages, pair)):
            if not wanted:
                raise _several_pairs(content, {*pair, *languages})
            content.skipped["in other languages"] += 1
            continue
        # In XLIFF 2, a unit has one or more segments.
        segments = unit.findall("{*}segment") or [unit]
        for segment in segments:
            source, target = (
                segment_text(segment.find(f"{{*}}{side}"), content) for side in ("source", "target")
            )
            element = segment.find("{*}target")
            about = {} if element is None else {**segment.attrib, **element.attrib}
            unfinished = about.get("state") in ("new", "needs-translation", "initial")
            if not source or not target or unfinished or unit.get("translate") == "no":
                content.skipped["untranslated"] += 1
            elif about.get("state-qualifier") == "fuzzy-match":
                content.skipped["fuzzy"] += 1
            else:
                names = unit.get("id"), segment.get("id") if len(segments) > 1 else None
                name = "/".join(filter(None, names)) or None
                yield segment, Segment(source, target, segment.sourceline, name)


@register_file_format("tmx", suffixes=(".tmx",), options=("languages",))
def read_tmx(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of a translation memory, by default from its source language to the other one."""
    wanted = pair = content.options.languages
    for unit in _read_units(content, "tmx", ("tu",)):
        texts: dict[str, str] = {}
        for variant in unit.iterfind("{*}tuv"):
            if text := segment_text(variant.find("{*}seg"), content):
                texts[variant.get(_LANGUAGE) or variant.get("lang", "")] = text
        if not pair and len(texts) == 2:
            header = unit.getroottree().find("{*}header")
            origin = unit.get("srclang") or ("" if header is None else header.get("srclang", ""))
            # The sort is stable: without a source language, the first one is the source.
            pair = tuple(sorted(texts, key=lambda language: not _is_language(language, origin)))
        sides = [next((texts[name] for name in texts if _is_language(name, side)), "") for side in pair]
        # A text without a translation may precede the first pair.
        if not wanted and len(texts) > max(1, sum(map(bool, sides))):
            raise _several_pairs(content, {*pair, *texts})
        if len(sides) == 2 and all(sides):
            yield Segment(sides[0], sides[1], unit.sourceline, unit.get("tuid"))
        else:
            content.skipped["untranslated"] += 1


def _is_language(language: str, wanted: str) -> bool:
    """Return whether a code is the wanted one, or names a region or a script of it: `en-US` for `en`."""
    language, wanted = (code.lower().replace("_", "-") for code in (language, wanted))
    return language == wanted or language.startswith(f"{wanted}-")


def _several_pairs(content: FileContent, languages: set[str]) -> DataError:
    return DataError(
        f"{content.name}: has several language pairs ({', '.join(sorted(languages))}): choose the source and "
        "the target language with languages (--languages)"
    )


def _read_units(content: FileContent, root: str, tags: tuple[str, ...], keep: bool = False) -> Iterator[Any]:
    """Yield the elements with one of the tags, and then remove them from memory, except with `keep`.

    Raises:
        DataError: if the file is not well-formed, has another root element or declares entities.
    """
    names = [f"{{*}}{tag}" for tag in tags]
    events = etree.iterparse(decompress(content.file), tag=names, resolve_entities=False, no_network=True)
    try:
        for _, element in events:
            declared = element.getroottree().docinfo.internalDTD
            if declared is not None and any(True for _ in declared.iterentities()):
                raise DataError(f"{content.name}: declares entities, which are refused: remove its DOCTYPE")
            yield element
            if not keep:
                element.clear()
            while not keep and element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise DataError(f"{content.name}: line {error.lineno}: not well-formed XML: {error.msg}") from None
    if (name := etree.QName(events.root).localname) != root:
        raise DataError(f"{content.name}: the root element is {name}, expected {root}")


def segment_text(element: Any, content: FileContent) -> str:
    """Return the text of an element without inline tags; empty if there is no element."""
    parts = () if element is None else text_nodes(element, content)
    return normalize_whitespace("".join(text for _, _, text in parts))


def text_nodes(element: Any, content: FileContent) -> Iterator[tuple[Any, str, str]]:
    """Yield the texts of an element, each with the element whose `text` or `tail` it is.

    A placeholder is a space, which is neither.
    """
    yield element, "text", element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            raise DataError(f"{content.name}: line {element.sourceline}: the entity {child.text} is refused")
        tag = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if tag in _TEXT_TAGS:
            yield from text_nodes(child, content)
        elif tag in _PLACEHOLDERS:
            yield child, "", " "
        yield child, "tail", child.tail or ""
