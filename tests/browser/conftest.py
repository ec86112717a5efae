"""A headless Chromium for pages; a test fails when its page logs an error."""

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
SLOW = 15_000  # milliseconds that a busy machine may take to do what is waited for


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The installed browser; as long as it is open an event loop runs, so no longer than for a module."""
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
    """Makes pages with the settings of a browser context; none may log an error."""
    contexts, errors = [], []

    def open_page(**settings) -> "Page":
        context = browser.new_context(**settings)
        context.set_default_timeout(SLOW)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(opened: "Callable[..., Page]") -> "Page":
    """A page on a desk."""
    return opened(viewport={"width": 1200, "height": 900}, color_scheme="light")


@pytest.fixture
def phone(opened: "Callable[..., Page]") -> "Page":
    """A page 360 px wide, with a finger."""
    return opened(viewport={"width": 360, "height": 740}, color_scheme="light", has_touch=True)
