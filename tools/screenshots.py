"""Take the screenshots of the report, the served page and a check in docs/images, with a quickstart model.

    python tools/screenshots.py QUICKSTART [--output-dir docs/images] [--phone] [--dark]

QUICKSTART is the directory of a finished `regard quickstart`. The script needs the extra `serve`, Playwright
and an installed Chromium. `--phone` and `--dark` show other views of the pages, for another output directory.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

NewPage = Callable[[], Page]
ROOT = Path(__file__).parents[1]
DESKTOP, PHONE = {"width": 1100, "height": 760}, {"width": 390, "height": 844}
MAX_COMPARED_WORDS = 15  # of the reference in the picture of the quickstart
MIN_WORDS, MAX_WORDS = 6, 10  # of the sentence in the picture of the report, so that its map fits


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("quickstart", type=Path)
    parser.add_argument("--output-dir", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--phone", action="store_true", help="the width of a phone")
    parser.add_argument("--dark", action="store_true", help="dark colors")
    options = parser.parse_args()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    model, test = options.quickstart / "models" / "soft", options.quickstart / "corpus" / "test"
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        view: Any = {
            "viewport": PHONE if options.phone else DESKTOP,
            "color_scheme": "dark" if options.dark else "light",
        }
        new_page = partial(browser.new_page, **view)
        report = Path(directory) / "report.html"
        text = [str(test.with_suffix(suffix)) for suffix in (".de", ".en")]
        command = ["report", str(model), "--test", *text, "--tokenize", "none", "-o", str(report)]
        subprocess.run([sys.executable, "-m", "regard", *command], check=True)
        take_comparison(new_page, options.quickstart / "report.html", options.output_dir / "quickstart.png")
        take_report(new_page, report, options.output_dir / "report.png")
        take_served_page(
            new_page,
            model.with_name("constrained"),
            test.with_suffix(".de"),
            options.output_dir / "serve.png",
        )
        take_check(
            new_page,
            model.with_name("constrained"),
            test.parent,
            Path(directory),
            options.output_dir / "check.png",
        )
        browser.close()


def take_check(new_page: NewPage, model: Path, corpus: Path, directory: Path, output: Path) -> None:
    """Make errors in the translations of the test set, check them, and take a picture of the worst ones."""
    made, page_file = directory / "corrupted.en", directory / "check.html"
    texts = str(corpus / "test.de"), str(corpus / "test.en")
    # The quickstart has trained the coverage model.
    check = ["check", texts[0], str(made), "--checker", str(model / "checker"), "--num-sentences", "0"]
    commands = [
        ["corrupt", *texts, "--kinds", "deletion,insertion,repetition", "-o", str(made)],
        [*check, "--report", str(page_file)],
    ]
    for command in commands:
        subprocess.run([sys.executable, "-m", "regard", *command], check=True)
    page = new_page()
    page.goto(page_file.as_uri())
    page.locator("#list .sentence").first.wait_for()
    # In the order of the text, the first sentences have errors of several types.
    page.locator("#order").select_option("text")
    page.locator("#order").blur()
    page.screenshot(path=output)


def take_comparison(new_page: NewPage, report: Path, output: Path) -> None:
    """Take a picture of a short sentence in which only the first of two systems repeats words.

    The detector of the page must find an error in its translation.
    """
    page = new_page()
    page.goto(report.as_uri())
    data = json.loads(page.locator("#data").text_content() or "")

    def errors_of_first(sentence: Any) -> int:
        first, second = sentence["systems"]
        errors = len(second.get("dropped") or []) + len(second.get("repeated") or [])
        words = sentence["reference_words"], second["target_words"]
        good = not errors and SequenceMatcher(None, *words, autojunk=False).ratio() > 0.8
        found = max(first["check"]["probabilities"].values()) >= data["check"]["threshold"]
        dropped, repeated = (len(first.get(name) or []) for name in ("dropped", "repeated"))
        shown = good and found and len(words[0]) <= MAX_COMPARED_WORDS and repeated
        return dropped + repeated if shown else 0

    line = max(data["sentences"], key=errors_of_first)["line"]
    page.goto(f"{report.as_uri()}#s{line}")
    page.reload()
    page.locator(".regard-map").nth(1).wait_for()
    sentence = page.locator("#list .sentence").filter(has=page.locator(".regard-map")).first
    sentence.evaluate("(card) => window.scrollTo(0, card.offsetTop - 70)")
    page.screenshot(path=output)


def take_report(new_page: NewPage, report: Path, output: Path) -> None:
    """Open the worst short sentence of a report, point to a cell of its attention map, and take a picture."""
    page = new_page()
    page.goto(report.as_uri())
    cards = page.locator("#list .sentence")
    lengths = cards.evaluate_all("all => all.map((card) => card.querySelectorAll('.source .word').length)")
    short = next((i for i, length in enumerate(lengths) if MIN_WORDS <= length <= MAX_WORDS), 0)
    sentence = cards.nth(short)
    sentence.locator("button", has_text="Attention").click()
    sentence.locator(".regard-map").first.wait_for()
    sentence.locator(".map-scale").select_option("sqrt")
    row = sentence.locator('.regard-map rect[data-row="3"]')
    weights = [float(cell.get_attribute("data-weight") or 0) for cell in row.all()]
    row.nth(weights.index(max(weights))).hover()
    sentence.evaluate("(card) => window.scrollTo(0, card.offsetTop - 70)")
    row.nth(weights.index(max(weights))).hover()
    page.screenshot(path=output)


def take_served_page(new_page: NewPage, model: Path, source: Path, output: Path) -> None:
    """Serve a model, translate two sentences on a logarithmic scale, select a word, and take a picture."""
    command = [sys.executable, "-m", "regard", "serve", str(model), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split()[-1]
        page = new_page()
        page.goto(address)
        lines = source.read_text(encoding="utf-8").splitlines()[:2]
        page.locator("#text").fill("\n".join(line.replace(" .", ".").replace(" ,", ",") for line in lines))
        page.locator(".card .regard-map").first.wait_for()
        page.locator(".map-scale").first.select_option("log")
        page.locator(".row.target-row .name").nth(3).click()
        page.screenshot(path=output)
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
