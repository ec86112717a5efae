"""The n-gram language model compared with its formulas, and ARPA files."""

import gzip
import itertools
import json
import math
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import DataError, UsageError
from regard.extensions.smt.arpa import read_arpa, write_arpa
from regard.extensions.smt.kneser_ney import FALLBACK_DISCOUNTS, estimate_language_model
from regard.extensions.smt.language_model import NgramLanguageModel, read_sentences


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


def test_bigram_probabilities_equal_manual_calculation() -> None:
    # The text is "a b" and "a c". With so few counts the fallback discounts apply: 0.5 for a count of 1.
    model = estimate_language_model([["a", "b"], ["a", "c"]], 2)
    # Continuation counts: a 1 (after <s>), b 1, c 1, </s> 2 (after b, c); total 5. Vocabulary with <unk>: 5.
    free = (0.5 * 3 + 1.0) / 5  # 0.5 for each of three counts of 1, and 1 for the count of 2
    b = (1 - 0.5) / 5 + free / 5
    after_a = 0.5 / 2 + (0.5 * 2 / 2) * b  # "a b" and "a c" occur once each
    assert model.score(["a", "b"])[1] == pytest.approx(math.log10(after_a), abs=1e-6)


def test_words_spelled_like_boundary_symbols_are_unknown() -> None:
    model = estimate_language_model([["a", "<s>", "b", "</s>", "c"], ["a", "b"]], 2)
    assert model.score(["<s>"]) == model.score(["never seen"])
    assert "<s>" not in {model.vocabulary[w] for w in model.trie.words[model.trie.nodes(2)]}


def test_order_higher_than_the_text_allows_is_rejected() -> None:
    with pytest.raises(DataError, match="as the order 5 requires; use an order of at most 4"):
        estimate_language_model([["a", "b"], ["c"]], 5, "tiny.en")
    with pytest.raises(DataError, match="contains no word"):
        estimate_language_model([[], []], 1)


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_arpa_file_round_trip_preserves_scores(tmp_path: Path, name: str) -> None:
    model = estimate_language_model(TEXT, 3)
    write_arpa(model, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert again.order == 3
    for words in [*TEXT[:30], ["w1", "new", "w1"]]:
        assert again.score(words) == pytest.approx(model.score(words), abs=1e-5)


def test_compressed_arpa_file_contains_no_time_or_file_name(tmp_path: Path) -> None:
    write_arpa(estimate_language_model(TEXT, 2), tmp_path / "m.arpa.gz")
    write_arpa(estimate_language_model(TEXT, 2), tmp_path / "other.gz")
    content = (tmp_path / "m.arpa.gz").read_bytes()
    # RFC 1952: one byte of flags, then four bytes of modification time; 0 means no time.
    assert content[3:8] == bytes(5)
    assert content == (tmp_path / "other.gz").read_bytes()


def test_saved_model_loads_exactly(tmp_path: Path) -> None:
    model = estimate_language_model(TEXT, 3)
    model.save(tmp_path)
    again = NgramLanguageModel.load(tmp_path)
    assert [again.score(words) for words in TEXT] == [model.score(words) for words in TEXT]
    (tmp_path / "language.words.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"language\.words\.npy"):
        NgramLanguageModel.load(tmp_path)


ARPA = r"""
\data\
ngram 1=4
ngram 2=2

\1-grams:
-1.0	<unk>
-99	<s>	-0.5
-0.5	</s>
-0.7	a	-0.3

\2-grams:
-0.2	<s> a
-0.1	a </s>

\end\
"""


def test_arpa_file_of_another_tool_backs_off(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(ARPA)
    model = read_arpa(path)
    assert model.score(["a"]) == pytest.approx([-0.2, -0.1])
    assert model.score(["b", "a"]) == pytest.approx([-0.5 - 1.0, -0.7, -0.1])
    assert model.score(["a", "a"]) == pytest.approx([-0.2, -0.3 - 0.7, -0.1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "", "expected the section"),
        ("ngram 1=4", "ngram 1=5", "before it has 4 1-grams, but the header declares 5"),
        ("ngram 2=2\n", "ngram 3=2\n", "line 4: 'ngram 3=2'; expected 'ngram 2=COUNT'"),
        ("\\2-grams:", "\\3-grams:", r"expected the section \\2-grams:"),
        ("\\end\\", "", "ends after line"),
        ("a </s>", "a b", "line 14: the word 'b' is not among the 1-grams"),
        ("-0.1\ta </s>", "-0.1\ta", "line 14: "),
        ("-0.1\ta", "minus\ta", "line 14: .*numbers"),
        ("-0.1\ta </s>", "-0.1\t<s> a", "duplicate n-gram, first given in line 13"),
        ("-0.5\t</s>", "0.5\t</s>", "line 9: .*above 0"),
        ("-0.5\t</s>", "nan\t</s>", "line 9: .*finite"),
        ("-0.5\t</s>", "-0.5\tb", "line 12: the 1-grams before it do not contain </s>"),
    ],
)
def test_damaged_arpa_file_is_rejected_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(ARPA.replace(old, new, 1))
    with pytest.raises(DataError, match=message) as caught:
        read_arpa(path)
    assert str(path) in str(caught.value)


def test_command_writes_arpa_file_and_reports_perplexity(tmp_path: Path) -> None:
    train, valid, out = tmp_path / "train", tmp_path / "valid", tmp_path / "out.arpa.gz"
    train.write_text("".join(" ".join(words) + "\n" for words in TEXT))
    valid.write_text("w1 w2 new\nw5\n")
    run = CliRunner().invoke(
        app, ["lm", str(train), "--order", "3", "-o", str(out), "--perplexity", str(valid)]
    )
    assert run.exit_code == 0, run.output
    scores = list(
        itertools.chain(*(estimate_language_model(TEXT, 3).score(s) for s in (["w1", "w2", "new"], ["w5"])))
    )
    shown = float(re.search(r"perplexity ([\d.]+);", run.output)[1])
    assert shown == pytest.approx(10 ** (-sum(scores) / 6), rel=1e-4)
    assert "1 unknown words" in run.output
    assert gzip.decompress(out.read_bytes()).startswith(b"\\data\\\n")
    again = CliRunner().invoke(app, ["lm", "--model", str(out), "--perplexity", str(valid)])
    assert f"perplexity {shown:.2f}" in again.output
    with pytest.raises(UsageError, match="nothing to do"):
        CliRunner().invoke(app, ["lm", str(train)], catch_exceptions=False)


def test_missing_unknown_word_gets_the_log_probability_of_kenlm(tmp_path: Path) -> None:
    """KenLM, Heafield (2011), assigns -100 to a missing `<unk>` (`Config::unknown_missing_logprob`)."""
    path = tmp_path / "x.arpa"
    path.write_text(ARPA.replace("ngram 1=4", "ngram 1=3").replace("-1.0\t<unk>\n", ""))
    assert read_arpa(path).score(["b"]) == pytest.approx([-0.5 - 100, -0.5])


def test_uppercase_unknown_word_is_the_unknown_word(tmp_path: Path) -> None:
    """KenLM (`lm/vocab.cc`) gives `<UNK>` the id of `<unk>`, but not `<S>` that of `<s>`."""
    path = tmp_path / "x.arpa"
    other = ARPA.replace("-0.2\t<s> a", "-0.2\t<s> <unk>")
    path.write_text(other)
    expected = read_arpa(path)
    path.write_text(other.replace("<unk>", "<UNK>"))
    model = read_arpa(path)
    assert model.vocabulary == expected.vocabulary
    for words in (["b"], ["a", "b"], ["<UNK>"], ["<unk>", "a"]):
        assert model.score(words) == expected.score(words)
    path.write_text(other.replace("</s>", "</S>"))
    with pytest.raises(DataError, match="do not contain </s>"):
        read_arpa(path)


def test_uppercase_unknown_word_in_a_text_is_unknown(tmp_path: Path) -> None:
    text = [["a", "<UNK>", "b"], ["b", "a"], ["a", "c"]]
    model = estimate_language_model(text, 2)
    lower = [[word.replace("<UNK>", "<unk>") for word in words] for words in text]
    expected = estimate_language_model(lower, 2)
    assert model.vocabulary == expected.vocabulary
    assert [model.score(words) for words in text] == [expected.score(words) for words in text]
    write_arpa(model, tmp_path / "m.arpa")
    assert read_arpa(tmp_path / "m.arpa").vocabulary == model.vocabulary


@pytest.mark.parametrize(
    ("old", "new"),
    [("\t", " "), ("\t", "  "), ("-0.7\ta\t", "-0.7 a\t"), ("<s> a", "<s>\ta"), ("</s>\n", "</s>\t\n")],
)
def test_tabs_and_spaces_of_an_arpa_file_are_equivalent(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(ARPA.replace(old, new))
    assert read_arpa(path).score(["a", "b"]) == pytest.approx([-0.2, -0.3 - 1.0, -0.5])


@pytest.mark.parametrize("log_prob", ["-99", "-99999", "-1e29"])
def test_perplexity_beyond_the_range_of_a_float_is_infinite(tmp_path: Path, log_prob: str) -> None:
    path, text, out = tmp_path / "x.arpa", tmp_path / "text", tmp_path / "out.json"
    path.write_text(ARPA.replace("-0.7\ta", f"{log_prob}\ta").replace("-1.0\t<unk>", f"{log_prob}\t<unk>"))
    model, total = read_arpa(path), float(log_prob)
    result = model.perplexity([["a", "b", "a"]] * 2)
    # <s> a, then backoff and <unk>, then a, then a </s>.
    mean = (-0.2 + (-0.3 + total) + total - 0.1) / 4
    assert result.with_unknown == (pytest.approx(10**-mean, rel=1e-3) if mean > -300 else math.inf)
    text.write_text("a b a\n")
    run = CliRunner().invoke(
        app,
        ["lm", "--model", str(path), "--perplexity", str(text), "--json", str(out)],
        catch_exceptions=False,
    )
    assert run.exit_code == 0
    assert (json.loads(out.read_text())["perplexity"]["with_unknown"] is None) == (mean < -308)


@pytest.mark.parametrize("value", ["-1e31", "-1e39", "-1e400", "-inf", "nan"])
@pytest.mark.parametrize("old", ["-0.7\ta", "-0.3\n"])
def test_log_probability_beyond_the_range_of_float32_is_rejected(
    tmp_path: Path, value: str, old: str
) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(ARPA.replace(old, old.replace("-0.7", value).replace("-0.3", value)))
    with pytest.raises(DataError, match=r"line 10: .*must be finite, from -1e\+30 to 1e\+30"):
        read_arpa(path)


def test_perplexity_of_an_empty_text_is_undefined() -> None:
    result = estimate_language_model(TEXT, 2).perplexity([])
    assert math.isnan(result.with_unknown) and math.isnan(result.without_unknown)


def test_words_may_contain_unicode_spaces(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(ARPA.replace("\ta", "\t1\u3000a").replace("<s> a", "<s> 1\u3000a"))
    assert read_arpa(path).score(["1\u3000a"]) == pytest.approx([-0.2, -0.1])
    path.write_text(path.read_text().replace("\t", " "))
    assert read_arpa(path).score(["1\u3000a"]) == pytest.approx([-0.2, -0.1])
    (tmp_path / "text").write_text("1\u3000a \u3000\n")
    assert list(read_sentences(tmp_path / "text")) == [["1\u3000a", "\u3000"]]


@pytest.mark.parametrize("count", ["9" * 5000, "1" * 16, "²", "-1", "1e3", ""])
def test_invalid_ngram_count_is_reported_with_its_line(tmp_path, count):
    path = tmp_path / "wrong.arpa"
    path.write_text(f"\\data\\\nngram 1={count}\n\n\\1-grams:\n-1\t<unk>\n-1\t</s>\n\n\\end\\\n")
    with pytest.raises(DataError, match=r"line 2: .*expected 'ngram 1=COUNT'"):
        read_arpa(path)
