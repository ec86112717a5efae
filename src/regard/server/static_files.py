"""Serve the static files of the web page, from this package and from the report's."""

from functools import cache
from importlib.resources import files

from fastapi import FastAPI, Response

__all__ = ["add_page"]

# Package, file name and content type of each path.
_FILES = {
    "/": ("regard.server", "index.html", "text/html; charset=utf-8"),
    **{
        f"/{name}.js": ("regard.server", f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("page", "client", "state", "card", "difference", "weave")
    },
    "/page.css": ("regard.server", "page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("regard.server", "icon.svg", "image/svg+xml"),
    "/map.js": ("regard.reporting", "map.js", "text/javascript; charset=utf-8"),
    "/base.css": ("regard.reporting", "base.css", "text/css; charset=utf-8"),
}


def add_page(app: FastAPI) -> None:
    """Add routes for the page at `/` and for its files."""
    for path, (package, name, kind) in _FILES.items():
        app.add_api_route(path, _answer(package, name, kind), include_in_schema=False)


def _answer(package: str, name: str, kind: str):
    async def answer() -> Response:
        # The page stores its state in the address, and browsers request the icon after each change of it.
        kept = "max-age=86400" if name == "icon.svg" else "no-cache"
        return Response(_content(package, name), media_type=kind, headers={"Cache-Control": kept})

    return answer


@cache
def _content(package: str, name: str) -> bytes:
    return (files(package) / "assets" / name).read_bytes()
