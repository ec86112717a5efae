"""Hooks of the documentation site (mkdocs.yml): generated pages, formulas, notebooks and results.

The pages of the reference are made from the code (`site_reference.py`), those of results are the files of the
recipes and benchmarks, and those of notebooks are the executed copies (`tools/notebooks.py`). Formulas become
MathML, which browsers display without scripts or fonts of the site.
"""

import html
import re
from pathlib import Path

import site_notebooks
import site_reference
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[([^]]+)\]\(((?:\.\./)*[\w./-]+\.(?:md|ipynb|toml|py))(#[\w-]+)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
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


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the executed notebooks."""
    try:
        notebooks = site_notebooks.pages(DOCS / "notebooks")
    except FileNotFoundError as error:
        raise PluginError(str(error)) from None
    pages = {**site_reference.pages(), **notebooks}
    pages |= {page: (ROOT / name).read_text(encoding="utf-8") for name, page in RESULTS.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
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
            target_page = path.removeprefix("docs/").replace(".ipynb", ".md")
            return f"[{label}]({_relative(name, target_page)}{anchor})"
        # A file of the repository that is no page: its path is shown.
        return f"{label} (`{path}`)" if (ROOT / path).exists() else found[0]

    return LINK.sub(redirect, markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the LaTeX formulas of a page by MathML."""
    del page, config, files

    def formula(found: re.Match[str]) -> str:
        return convert(html.unescape(found[2]), display="block" if found[1] == "div" else "inline")

    return FORMULA.sub(formula, content)


def _relative(page: str, target: str) -> str:
    """Return the path of a page from another one."""
    return "../" * page.count("/") + target
