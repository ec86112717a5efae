"""The page: files of this package, and of the report's, served as they are."""

from functools import cache
from importlib.resources import files

from fastapi import FastAPI, Response

__all__ = ["add_page"]

# Where each file lies, and what it is.
_FILES = {
    "/": ("regard.server", "index.html", "text/html; charset=utf-8"),
    **{
        f"/{name}.js": ("regard.server", f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("page", "client", "state", "card", "difference", "weave")
    },
    "/page.css": ("regard.server", "page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("regard.server", "icon.svg", "image/svg+xml"),
    "/map.js": ("regard.report", "map.js", "text/javascript; charset=utf-8"),
    "/base.css": ("regard.report", "base.css", "text/css; charset=utf-8"),
}


def add_page(app: FastAPI) -> None:
    """Serve the page at `/` and its files beside it."""
    for path, (package, name, kind) in _FILES.items():
        app.add_api_route(path, _answer(package, name, kind), include_in_schema=False)


def _answer(package: str, name: str, kind: str):
    async def answer() -> Response:
        # Browsers ask for the icon whenever the address changes, and the state of the page stands there.
        kept = "max-age=86400" if name == "icon.svg" else "no-cache"
        return Response(_content(package, name), media_type=kind, headers={"Cache-Control": kept})

    return answer


@cache
def _content(package: str, name: str) -> bytes:
    return (files(package) / "assets" / name).read_bytes()
