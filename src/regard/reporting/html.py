"""Render pages that open offline: one HTML file with its styles, its scripts and its data.

A page makes no network requests, and inserts all data as text, never as markup.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from regard.config.results import json_value
from regard.text.files import format_json
from regard.text.paths import readable

_PACKAGE = "regard.reporting"


def render_html(
    template: str,
    title: str,
    data: Any,
    styles: Sequence[str],
    scripts: Sequence[str],
    package: str = _PACKAGE,
    **values: Any,
) -> str:
    """Return the HTML text of a page.

    Args:
        template: File name of the template, which extends `page.html.j2`.
        title: Title of the page.
        data: The data of the page as JSON values.
        styles: File names of the style sheets.
        scripts: File names of the scripts.
        package: Package whose `assets` have these files; files that it lacks are those of `regard.reporting`.
        values: Other variables of the template.
    """
    loader = ChoiceLoader([PackageLoader(name, "assets") for name in dict.fromkeys((package, _PACKAGE))])
    # `StrictUndefined` makes a misspelled name in the template an error instead of empty text.
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = (
        "\n".join(loader.get_source(environment, name)[0] for name in names) for names in (styles, scripts)
    )
    return environment.get_template(template).render(
        title=readable(title),
        styles=style,
        style_hash=_digest(style),
        scripts=script,
        script_hash=_digest(script),
        data=script_json(data),
        **values,
    )


def script_json(data: Any) -> str:
    """Return JSON for use inside a script element: no text in it can end the element or start a comment.

    Non-finite numbers become null.
    """
    text = format_json(json_value(data), separators=(",", ":"))
    # U+2028 and U+2029 are line breaks in older versions of JavaScript, but not in JSON.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Another lone surrogate, from text that was cut within a character, cannot be encoded as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def _digest(text: str) -> str:
    """Return the hash of a script or a style sheet, as the content security policy allows no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
