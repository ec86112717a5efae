"""Size and loading time of the HTML report for 1,000 sentences of 30 words and two systems, or of a check.

    python benchmarks/report.py                  # requires the package playwright and Chromium
    python benchmarks/report.py --check --sentences 20000

The text and the attention maps are synthetic (the maps are from softmax, which has no zero weights and
therefore compresses worst), and are processed by the same functions as a real report. The output is the
size of the page, the median time from the start of navigation until the first sentences are displayed, and
the processor time of the main thread of the page, which does not depend on other work on the machine.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np

from regard.analysis.errors import SentenceErrors
from regard.extensions.check.page import check_report
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence
from regard.metrics.attention import attention_statistics
from regard.metrics.coverage import received_attention
from regard.reporting.model_card import Curves
from regard.reporting.page import Report, render
from regard.reporting.scores import compute_scores
from regard.reporting.systems import SentenceResult, SystemResults
from regard.reporting.word_maps import word_map

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def make_system(
    name: str, pairs: list[tuple[str, str]], generator: np.random.Generator, words: list[str]
) -> SystemResults:
    """Return a system whose translations are the references with some words replaced."""
    sentences, attention = [], []
    for number, (source, reference) in enumerate(pairs, 1):
        source_words, gold = tuple(source.split()), tuple(reference.split())
        changed = generator.random(len(gold)) < 0.2
        output = tuple(
            str(generator.choice(words)) if other else word for word, other in zip(gold, changed, strict=True)
        )
        scores = generator.normal(size=(len(output) + 1, 1, len(source_words))) * 2
        scores[np.arange(len(output)), 0, np.arange(len(output)) % len(source_words)] += 6
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        ids = list(range(len(source_words))), list(range(len(output)))
        maps = word_map(output, source_words, weights[:-1, 0], *ids)
        links = frozenset((i, i) for i in range(len(source_words)))
        output_links = frozenset(link for link in links if generator.random() < 0.95)
        received = received_attention(weights[:-1, 0], ids[0])
        sentence = SentenceErrors(number, source_words, gold, output, received, (links, output_links))
        attention_stats = attention_statistics(weights, np.ones(len(output) + 1, dtype=bool), *ids)
        attention.append(attention_stats)
        sentences.append(
            SentenceResult(
                sentence,
                " ".join(output),
                maps,
                maps,
                float(attention_stats.entropies.mean()),
                attention_stats.coverage,
                -0.5,
            )
        )
    curve = tuple((float(50 * i), 300.0 / i) for i in range(1, 400))
    return SystemResults(name, name, tuple(sentences), tuple(attention), 8.0, Curves(curve, curve[::10]))


def make_pairs(sentences: int, length: int) -> tuple[list[tuple[str, str]], list[str]]:
    """Return pairs of sentences, and the words that they consist of."""
    generator = np.random.default_rng(1)
    letters = np.array(list("aeionrstldmhu"))
    words = ["".join(generator.choice(letters, size=generator.integers(2, 10))) for _ in range(3000)]
    sides = generator.choice(words, size=(sentences, 2, length)).tolist()
    return [(" ".join(source), " ".join(target)) for source, target in sides], words


def write_check(sentences: int, length: int, path: Path) -> None:
    """Write the page of a check in which every sentence has an omission in one or two places."""
    generator = np.random.default_rng(1)
    pairs, _ = make_pairs(sentences, length)
    checked = [
        CheckedSentence(
            number,
            source,
            target,
            {"omission": generator.uniform(0.5, 1)},
            np.where(np.isin(np.arange(length), generator.integers(length, size=2)), 0.9, 0.01),
        )
        for number, (source, target) in enumerate(pairs, 1)
    ]
    check_report(CoverageCheck("made up", tuple(checked)), path)


def make_page(sentences: int, length: int) -> str:
    """Return the HTML page of a report on two systems."""
    generator = np.random.default_rng(1)
    pairs, words = make_pairs(sentences, length)
    systems = [make_system(name, pairs, generator, words) for name in ("first", "second")]
    scores = compute_scores(systems, pairs, tokenize="none", num_resamples=100)
    return render(Report("Benchmark", "made up", "made up", pairs, systems, scores))


def open_page(path: Path, repeats: int) -> list[tuple[float, float]]:
    """Return seconds until the first sentences and seconds of main-thread work, each in a new context."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, BROWSERS)))
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
    parser = argparse.ArgumentParser(description="Size and loading time of the HTML report.")
    parser.add_argument("--check", action="store_true", help="the page of a check, not a report")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="output file of the page; default: a temporary file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = (options.keep or Path(directory) / "report.html").resolve()
        if options.check:
            write_check(options.sentences, options.words, path)
        else:
            path.write_text(make_page(options.sentences, options.words), encoding="utf-8")
        found = open_page(path, options.repeats)
        size = path.stat().st_size / 1e6
    content = "check" if options.check else "2 systems"
    print(f"{options.sentences} sentences of {options.words} words, {content}: {size:.2f} MB")
    seconds, work = ([one[part] for one in found] for part in (0, 1))
    print(f"main thread: {statistics.median(work):.2f} s of processor time (median)")
    print(f"opens in {statistics.median(seconds):.2f} s (median of {', '.join(f'{s:.2f}' for s in seconds)})")


if __name__ == "__main__":
    main()
