"""Check the built site: nothing is loaded from another host, and every link leads to a file and its anchor.

python tools/check_site.py build/site
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class PageParser(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the attributes of a tag."""
        values = dict(attrs)
        if identifier := values.get("id") or (values.get("name") if tag == "a" else None):
            self.anchors.add(identifier)
        if tag == "a" and (link := values.get("href")):
            self.links.append(link)
        for name, attribute in LOADED:
            if tag == name and (value := values.get(attribute)) and values.get("rel") != "canonical":
                self.loaded.append(value)


def problems(directory: Path) -> Iterator[str]:
    """Yield a message for each broken link and each file that another host would have to send."""
    pages = {}
    for path in sorted(directory.rglob("*.html")):
        pages[path.resolve()] = parser = PageParser()
        parser.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        name = path.relative_to(directory.resolve())
        for address in page.loaded:
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{name}: loads {address}"
        for link in page.links + page.loaded:
            address, anchor = urldefrag(link)
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                # The page of errors has absolute addresses, because it is shown at any address.
                if name.name != "404.html":
                    yield f"{name}: no file {address}"
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                yield f"{name}: {address or name} has no anchor #{anchor}"


def main() -> None:
    """Print the problems; exit with status 1 if there are any."""
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) or "the site has no broken links and loads nothing from other hosts")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
