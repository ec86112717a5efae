"""How large the report's page is and how soon it opens: 1,000 sentences of 30 words, two systems.

    python benchmarks/report.py                  # needs the package playwright and an installed Chromium

The text is made up and so are the maps (of softmax, where no weight is zero: what deflates worst); they go
through the same functions as a real report. Printed are the page's size, and the median of the times from the
start of navigation to the first sentences on the page; then what the page's main thread computed for it,
which other work on the machine does not lengthen.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np

from regard.metrics.attention import look
from regard.report.collect import Shown, System
from regard.report.curves import Curves
from regard.report.maps import Seen, word_maps
from regard.report.page import Report, render
from regard.report.scores import score_systems
from regard.report.worst import Sentence, received_attention


def make_system(
    name: str, pairs: list[tuple[str, str]], generator: np.random.Generator, words: list[str]
) -> System:
    """A system whose translations are the references with some words changed."""
    sentences, attention = [], []
    for number, (source, reference) in enumerate(pairs, 1):
        read, said = tuple(source.split()), tuple(reference.split())
        changed = generator.random(len(said)) < 0.2
        output = tuple(
            str(generator.choice(words)) if other else word for word, other in zip(said, changed, strict=True)
        )
        scores = generator.normal(size=(len(output) + 1, 1, len(read))) * 2
        scores[np.arange(len(output)), 0, np.arange(len(output)) % len(read)] += 6
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        ids = list(range(len(read))), list(range(len(output)))
        heads = Seen(weights[:-1, 0], [weights[:-1]])
        maps = word_maps(output, read, heads, *ids, prior=heads)
        links = frozenset((i, i) for i in range(len(read)))
        less = frozenset(link for link in links if generator.random() < 0.95)
        received = received_attention(weights[:-1, 0], ids[0])
        sentence = Sentence(number, read, said, output, received, (links, less))
        seen = look(weights, np.ones(len(output) + 1, dtype=bool), *ids)
        attention.append(seen)
        sentences.append(
            Shown(sentence, " ".join(output), maps, maps, float(seen.entropies.mean()), seen.coverage, -0.5)
        )
    curve = tuple((float(50 * i), 300.0 / i) for i in range(1, 400))
    return System(name, name, tuple(sentences), tuple(attention), 8.0, Curves(curve, curve[::10]))


def make_page(sentences: int, length: int) -> str:
    """The page of two systems."""
    generator = np.random.default_rng(1)
    letters = np.array(list("aeionrstldmhu"))
    words = ["".join(generator.choice(letters, size=generator.integers(2, 10))) for _ in range(3000)]
    pairs = [
        (" ".join(generator.choice(words, size=length)), " ".join(generator.choice(words, size=length)))
        for _ in range(sentences)
    ]
    systems = [make_system(name, pairs, generator, words) for name in ("first", "second")]
    scores = score_systems(systems, pairs, tokenize="none", resamples=100)
    return render(Report("Benchmark", "made up", "made up", pairs, systems, scores))


def open_page(path: Path, repeats: int) -> list[tuple[float, float]]:
    """Seconds to the first sentences, and of the main thread's own work, each time in a fresh context."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    script = """() => new Promise((done) => {
        const look = () => document.querySelector("#list .sentence")
            ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5);
        look();
    })"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = []
        for _ in range(repeats):
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            page = context.new_page()
            session = context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(path.as_uri(), wait_until="commit")
            seconds = float(page.evaluate(script)) / 1000
            metrics = session.send("Performance.getMetrics")["metrics"]
            (work,) = (one["value"] for one in metrics if one["name"] == "TaskDuration")
            found.append((seconds, float(work)))
            context.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Size of the report's page and how soon it opens.")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="write the page here")
    options = parser.parse_args()
    page = make_page(options.sentences, options.words)
    with tempfile.TemporaryDirectory() as folder:
        path = (options.keep or Path(folder) / "report.html").resolve()
        path.write_text(page, encoding="utf-8")
        found = open_page(path, options.repeats)
        size = path.stat().st_size / 1e6
    print(f"{options.sentences} sentences of {options.words} words, 2 systems: {size:.2f} MB")
    seconds, work = ([one[part] for one in found] for part in (0, 1))
    print(f"main thread: {statistics.median(work):.2f} s of its own work (median)")
    print(f"opens in {statistics.median(seconds):.2f} s (median of {', '.join(f'{s:.2f}' for s in seconds)})")


if __name__ == "__main__":
    main()
