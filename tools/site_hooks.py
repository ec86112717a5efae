"""Hooks of the documentation site (mkdocs.yml): generated pages, formulas, notebooks and results.

The pages of the reference are made from the code (`site_reference.py`), those of results are the files of the
recipes and benchmarks, and those of notebooks are the executed copies (`tools/notebooks.py`). KaTeX, which
sets the formulas, and a script for search are npm packages that are fetched once and copied into the site.
"""

import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import site_notebooks
import site_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CACHE = ROOT / "build" / "npm"
PACKAGES = {
    "katex@0.16.22": r"package/dist/(katex\.min\.(?:js|css)|fonts/[\w-]+\.woff2)",
    "iframe-worker@1.0.4": r"package/shim/(index\.js)",
}
"""npm packages that the site contains, with a pattern of the files; they are fetched once."""

LINK = re.compile(r"(?<!!)\[([^]\n]+)\]\(((?:\.\./)*[\w./-]+\.(?:md|toml|py))(#[\w-]+)?\)")
RESULTS = {
    "benchmarks/RESULTS.md": "results/benchmarks.md",
    "benchmarks/coverage.md": "results/coverage.md",
    "recipes/README.md": "results/recipes.md",
    "recipes/malaviya2018/RESULTS.md": "results/malaviya2018.md",
    "recipes/shankar2019/RESULTS.md": "results/shankar2019.md",
    "recipes/indurthi2019/RESULTS.md": "results/indurthi2019.md",
    "recipes/sutskever2014/RESULTS.md": "results/sutskever2014.md",
}
"""Files outside `docs/` and their pages on the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the directories of generated pages, and patterns, in the navigation by their pages."""
    assert config.nav is not None
    generated = {
        "notebooks": [f"notebooks/{path.stem}.md" for path in sorted((DOCS / "notebooks").glob("*.ipynb"))],
        "reference/options": sorted(site_reference.option_pages()),
        "reference/api": sorted(site_reference.api_pages()),
        "results": list(RESULTS.values()),
    }
    config.nav = _expand(config.nav, generated)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the executed notebooks and the files of npm packages."""
    try:
        notebooks = site_notebooks.pages(DOCS / "notebooks")
    except FileNotFoundError as error:
        raise PluginError(str(error)) from None
    pages = {**site_reference.pages(), **notebooks}
    pages |= {page: (ROOT / name).read_text(encoding="utf-8") for name, page in RESULTS.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for name, content in _package_files().items():
        files.append(File.generated(config, f"assets/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Redirect links to files outside `docs/`, and fill in the generated part of a page."""
    del config, files
    name = page.file.src_uri
    origin = next((file for file, made in RESULTS.items() if made == name), f"docs/{name}")
    here = (ROOT / origin).parent
    markdown = site_reference.fill(markdown)

    def redirect(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        try:
            path = (here / target).resolve().relative_to(ROOT).as_posix()
        except ValueError:
            return label
        if path in RESULTS:
            return f"[{label}]({_relative(name, RESULTS[path])}{anchor})"
        if path.startswith("docs/"):
            return f"[{label}]({_relative(name, path.removeprefix('docs/'))}{anchor})"
        # A file of the repository that is no page: its path is shown.
        return f"{label} (`{path}`)" if (ROOT / path).exists() else found[0]

    return LINK.sub(redirect, markdown)


def _relative(page: str, target: str) -> str:
    """Return the path of a page from another one."""
    return "../" * page.count("/") + target


def _expand(nav: Any, generated: dict[str, list[str]]) -> Any:
    """Return a navigation in which generated directories and patterns are lists of their pages."""
    if isinstance(nav, str) and "*" in nav:
        return [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob(nav))]
    if isinstance(nav, list):
        pages: list[Any] = []
        for one in nav:
            made = _expand(one, generated)
            # The pages of a pattern stand next to the other pages of the list.
            pages += made if isinstance(one, str) and "*" in one else [made]
        return pages
    if isinstance(nav, dict):
        return {title: _expand(one, generated) for title, one in nav.items()}
    return generated.get(nav, nav)


def _package_files() -> dict[str, bytes]:
    """Return the files of the npm packages that the site contains, by their paths in `assets/`.

    Raises:
        PluginError: if npm is missing or fails.
    """
    made = {}
    for package, wanted in PACKAGES.items():
        directory = CACHE / package
        if not directory.is_dir():
            _fetch(package, re.compile(wanted), directory)
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                made[f"{package.partition('@')[0]}/{path.relative_to(directory)}"] = path.read_bytes()
    return made


def _fetch(package: str, wanted: re.Pattern[str], directory: Path) -> None:
    """Unpack the wanted files of an npm package into a directory."""
    # pyright installs Node.js where the machine has none, and finds it where it has.
    from pyright import node

    with tempfile.TemporaryDirectory() as temporary:
        partial = Path(temporary)
        arguments = ("pack", package, "--pack-destination", temporary, "--silent")
        done = node.run("npm", *arguments, capture_output=True)
        if done.returncode != 0:
            raise PluginError(f"npm pack {package} failed: {done.stderr.decode(errors='replace').strip()}")
        (file,) = partial.glob("*.tgz")
        with tarfile.open(file) as archive:
            for member in archive.getmembers():
                found = wanted.fullmatch(member.name)
                content = archive.extractfile(member) if found else None
                if found and content is not None:
                    target = partial / "files" / found[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read())
        shutil.copytree(partial / "files", directory, dirs_exist_ok=True)
