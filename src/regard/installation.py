"""How regard was installed, and the command that adds the packages of an extra in the same way.

No package index is assumed to have regard. The command therefore names the origin of the installation: a
directory, a file or an address, as recorded in `direct_url.json` (PEP 610). Without such a record it names
the packages of the extra.
"""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["install_command"]

_NAME = "regard"
_ROOT = Path(__file__).parents[2]
_REQUIREMENT = re.compile(r"\s*([^;]+?)\s*;(.*)", re.DOTALL)
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def install_command(extra: str, found: Distribution | None = None, prefix: Path | None = None) -> str:
    """Return the shell command that installs the packages of an extra.

    Args:
        extra: The name of the extra, such as `serve`.
        found: The metadata of the installed package. Default: that of regard.
        prefix: The directory of the Python environment. Default: that of this process.
    """
    if found is None:
        try:
            found = distribution(_NAME)
        except PackageNotFoundError:
            # regard runs from its source directory without an installation.
            return f"pip install -e {shlex.quote(f'{_ROOT}[{extra}]')}"
    prefix = Path(sys.prefix) if prefix is None else prefix
    options, packages = _origin(found, extra), _packages(found, extra)
    if (prefix / "uv-receipt.toml").is_file():
        # `uv tool` replaces the environment of a tool, so the tool itself is named, too.
        added = [word for package in packages for word in ("--with", package)]
        return shlex.join(["uv", "tool", "install", *(options or [_NAME, *added])])
    if (prefix / "pipx_metadata.json").is_file():
        return shlex.join(["pipx", "inject", _NAME, *packages])
    installer = (found.read_text("INSTALLER") or "").strip()
    pip = ["uv", "pip"] if installer == "uv" else ["pip"]
    return shlex.join([*pip, "install", *(options or packages)])


def _origin(found: Distribution, extra: str) -> list[str]:
    """Return the arguments that install the same regard with the extra; empty if its origin is unknown."""
    try:
        record = json.loads(found.read_text("direct_url.json") or "{}")
        url = str(record["url"])
    except (KeyError, TypeError, ValueError):
        return []
    if url.startswith("file:"):
        # A file may have been deleted after the installation.
        path = Path(unquote(urlsplit(url).path))
        editable = _table(record, "dir_info").get("editable") is True
        return [*(["-e"] if editable else []), f"{path}[{extra}]"] if path.exists() else []
    version_control = _table(record, "vcs_info")
    if version_control:
        revision = version_control.get("commit_id") or version_control.get("requested_revision")
        url = f"{version_control.get('vcs', 'git')}+{url}" + (f"@{revision}" if revision else "")
    place = record.get("subdirectory")
    return [f"{_NAME}[{extra}] @ {url}" + (f"#subdirectory={place}" if place else "")]


def _table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = record.get(name)
    return table if isinstance(table, dict) else {}


def _packages(found: Distribution, extra: str) -> list[str]:
    """Return the requirements of an extra; the name with the extra if the metadata does not list it."""
    packages = []
    for requirement in found.requires or ():
        matched = _REQUIREMENT.fullmatch(requirement)
        if matched and extra in _EXTRA.findall(matched[2]):
            packages.append(matched[1])
    return packages or [f"{_NAME}[{extra}]"]
