"""Fixtures for a headless Chromium; a test fails if its page logs an error."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one renders pages in less than half of the processor time of Chromium."""
SLOW = 15_000  # timeout in milliseconds, long enough for a busy machine


@contextmanager
def serve(app) -> Iterator[str]:
    """Yield the address of an application that a thread serves."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(30)


def lines(page: "Page") -> list[str]:
    """Return the ids of the displayed sentences of a report, in order."""
    return page.locator("#list .sentence").evaluate_all("all => all.map((card) => card.id)")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Yield the installed browser.

    An event loop runs while it is open, so its scope is a module and not the session.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"needs a browser: none of {', '.join(NAMES)} is installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser: "Browser") -> "Iterator[Callable[..., Page]]":
    """Yield a function that opens pages with the given context settings; none may log an error."""
    contexts, errors = [], []

    def open_page(**settings) -> "Page":
        context = browser.new_context(**settings)
        context.set_default_timeout(SLOW)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(opened: "Callable[..., Page]") -> "Page":
    return opened(viewport={"width": 1200, "height": 900}, color_scheme="light")


@pytest.fixture
def phone(opened: "Callable[..., Page]") -> "Page":
    """Return a page that is 360 px wide, with a touch screen."""
    return opened(viewport={"width": 360, "height": 740}, color_scheme="light", has_touch=True)
