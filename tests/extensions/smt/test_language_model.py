"""The n-gram language model compared with its formulas, and ARPA files."""

import dataclasses
import gzip
import math
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from command_runs import run

from regard.errors import DataError, UsageError
from regard.extensions.smt.kneser_ney import FALLBACK_DISCOUNTS, estimate_language_model


def some_text(lines: int = 400) -> list[list[str]]:
    """Return random sentences in which each word depends on the preceding one."""
    rng = random.Random(3)
    text = []
    for _ in range(lines):
        words, word = [], 0
        for _ in range(rng.randint(1, 9)):
            word = int(rng.paretovariate(0.7) + 3 * word) % 60
            words.append(f"w{word}")
        text.append(words)
    return text


TEXT = some_text()


class Reference:
    """Interpolated modified Kneser-Ney smoothing, written from the formulas with dictionaries."""

    def __init__(self, text: list[list[str]], order: int) -> None:
        self.order = order
        grams = Counter()
        for words in text:
            line = ("<s>", *words, "</s>")
            for n in range(1, order + 1):
                grams.update(line[i : i + n] for i in range(len(line) - n + 1))
        self.words = {gram[0] for gram in grams if len(gram) == 1} - {"<s>"} | {"<unk>"}
        self.adjusted: dict[tuple[str, ...], int] = {}
        before = Counter(gram[1:] for gram in grams if len(gram) > 1)
        for gram, count in grams.items():
            if len(gram) == order or (gram[0] == "<s>" and len(gram) > 1):
                self.adjusted[gram] = count
            elif gram != ("<s>",):
                self.adjusted[gram] = before[gram]
        self.discounts = [self._discounts(n) for n in range(1, order + 1)]

    def _discounts(self, n: int) -> tuple[float, ...]:
        t = Counter(count for gram, count in self.adjusted.items() if len(gram) == n)
        if not all(t[j] for j in (1, 2, 3)):
            return (0.0, *FALLBACK_DISCOUNTS)
        y = t[1] / (t[1] + 2 * t[2])
        found = tuple(j - (j + 1) * y * t[j + 1] / t[j] for j in (1, 2, 3))
        return (0.0, *(found if all(0 <= d <= j for j, d in enumerate(found, 1)) else FALLBACK_DISCOUNTS))

    def prob(self, context: tuple[str, ...], word: str) -> float:
        context = context[-(self.order - 1) :] if self.order > 1 else ()
        followers = {w: self.adjusted.get((*context, w), 0) for w in self.words}
        total = sum(followers.values())
        lower = self.prob(context[1:], word) if context else 1 / len(self.words)
        if not total:
            return lower
        d = self.discounts[len(context)]
        count = followers.get(word, 0)
        gamma = sum(d[min(3, c)] for c in followers.values()) / total
        return (count - d[min(3, count)]) / total + gamma * lower


@pytest.mark.parametrize("order", [1, 2, 4])
def test_probabilities_equal_the_formulas(order: int) -> None:
    model, wanted = estimate_language_model(TEXT, order), Reference(TEXT, order)
    sentences = [*TEXT[:20], ["w1", "new", "w2", "w3"], ["w59", "w58", "w57", "w59"], []]
    for words in sentences:
        known = [word if word in wanted.words else "<unk>" for word in words]
        line = ("<s>", *known, "</s>")
        expected = [math.log10(wanted.prob(line[:i], line[i])) for i in range(1, len(line))]
        assert model.score(words) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("order", [1, 3])
def test_probabilities_sum_to_one_after_any_context(order: int) -> None:
    model = estimate_language_model(TEXT, order)
    vocabulary = [word for word in model.vocabulary if word not in ("<s>", "</s>")]
    for context in (["w1"], ["w1", "w2"], ["w59", "w58"], ["never"], ["w3", "never"], TEXT[0], []):
        total = sum(10 ** model.score([*context, word])[-2] for word in vocabulary)
        total += 10 ** model.score(context)[-1]
        assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("word", ["<UNK>", "<s>", "</s>"])
def test_words_spelled_like_special_symbols_are_unknown(word: str) -> None:
    """KenLM (`lm/vocab.cc`) gives `<UNK>` the id of `<unk>`."""
    text = [["a", word, "b"], ["b", "a"], ["a", "c"]]
    model = estimate_language_model(text, 2)
    expected = estimate_language_model([[w.replace(word, "<unk>") for w in words] for words in text], 2)
    assert model.vocabulary == expected.vocabulary
    assert [model.score(words) for words in text[1:]] == [expected.score(words) for words in text[1:]]
    assert model.score(["a", "<s>", "b"]) == expected.score(["a", "never seen", "b"])


def test_order_higher_than_the_text_allows_is_rejected() -> None:
    with pytest.raises(DataError, match="as the order 5 requires; use an order of at most 4"):
        estimate_language_model([["a", "b"], ["c"]], 5, "tiny.en")
    with pytest.raises(DataError, match="contains no word"):
        estimate_language_model([[], []], 1)


def test_arpa_file_gives_the_scores_of_the_model(tmp_path: Path) -> None:
    """The scores are those of the backoff formula of the format (Katz 1987), computed from the file alone."""
    model = estimate_language_model(TEXT, 3)
    model.write_arpa(tmp_path / "m.arpa.gz")
    sections = gzip.decompress((tmp_path / "m.arpa.gz").read_bytes()).decode().split("-grams:\n")[1:]
    rows = (line.split("\t") for section in sections for line in section.split("\n\n")[0].splitlines())
    # The probability and, if there is one, the backoff of each n-gram.
    grams = {tuple(words.split(" ")): [float(n), *map(float, backoff)] for n, words, *backoff in rows}
    assert {len(gram) for gram in grams} == {1, 2, 3}

    def score(context: tuple[str, ...], word: str) -> float:
        if (*context, word) in grams:
            return grams[*context, word][0]
        return sum(grams.get(context, [0])[1:]) + score(context[1:], word)

    for words in [*TEXT[:30], ["w1", "new", "w1"]]:
        line = ["<s>", *(word if (word,) in grams else "<unk>" for word in words), "</s>"]
        expected = [score(tuple(line[max(0, i - 2) : i]), line[i]) for i in range(1, len(line))]
        assert model.score(words) == pytest.approx(expected, abs=1e-5)


def test_command_writes_arpa_file_and_reports_perplexity(tmp_path: Path) -> None:
    train, valid, out = tmp_path / "train", tmp_path / "valid", tmp_path / "out.arpa.gz"
    train.write_text("".join(" ".join(words) + "\n" for words in TEXT))
    valid.write_text("w1 w2 new\nw5\n")
    shown = run("lm", train, "--order", 3, "-o", out, "--perplexity", valid)
    model = estimate_language_model(TEXT, 3)
    scores = [*model.score(["w1", "w2", "new"]), *model.score(["w5"])]
    perplexity = float(re.search(r"perplexity ([\d.]+);", shown.output)[1])
    assert perplexity == pytest.approx(10 ** (-sum(scores) / 6), rel=1e-4)
    assert "1 unknown words" in shown.output
    assert gzip.decompress(out.read_bytes()).startswith(b"\\data\\\n")
    with pytest.raises(UsageError, match="nothing to do"):
        run("lm", train)


def test_perplexity_of_an_empty_text_is_undefined_and_of_an_impossible_one_infinite() -> None:
    model = estimate_language_model(TEXT, 2)
    result = model.perplexity([])
    assert math.isnan(result.with_unknown) and math.isnan(result.without_unknown)
    impossible = dataclasses.replace(model, log_probs=np.full_like(model.log_probs, -99999))
    assert impossible.perplexity([["w1"]]).with_unknown == math.inf
