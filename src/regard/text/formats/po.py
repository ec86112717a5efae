"""Message catalogs of gettext (PO), by the library polib (extra `formats`).

Each plural form is a segment: the singular of the source with form 0, its plural with the others. The context
of a message is the identifier. Obsolete messages are ignored.
"""

from collections.abc import Iterator

from regard.errors import DataError, UsageError
from regard.text.corpus import decode_lines
from regard.text.formats.base import FileContent, Segment, register_file_format
from regard.text.words import normalize_whitespace


@register_file_format("po", suffixes=(".po", ".pot"))
def read_po(content: FileContent) -> Iterator[Segment]:
    """Yield the segments of a catalog, which is read into memory as a whole.

    Raises:
        DataError: if the file is not a catalog in UTF-8.
        UsageError: if polib is not installed.
    """
    try:
        import polib
    except ModuleNotFoundError:
        raise UsageError(f"{content.name}: reading PO needs polib: pip install 'regard[formats]'") from None
    try:
        # polib reads text of several lines, and never a file of this name.
        catalog = polib.pofile("\n".join([*decode_lines(content.file, content.name), "\n"]))
    except OSError as error:
        raise DataError(f"{content.name}: not a PO file: {error}") from None
    for entry in catalog:
        if entry.obsolete:
            continue
        line = entry.linenum or 1  # polib gives 0 for the first line
        forms = entry.msgstr_plural or {0: entry.msgstr}
        if entry.fuzzy or not all(forms.values()):
            content.skipped["fuzzy" if entry.fuzzy else "untranslated"] += 1
            continue
        for form, target in forms.items():
            # A language with one form uses it for any number.
            is_singular = not entry.msgid_plural or (form == 0 and len(forms) > 1)
            source = entry.msgid if is_singular else entry.msgid_plural
            texts = normalize_whitespace(source), normalize_whitespace(target)
            yield Segment(*texts, line=line, id=entry.msgctxt)
