"""A made-up report: two systems, one bounded and with a posterior, on text that wants to be markup."""

import numpy as np

from regard.data.links import parse_gold
from regard.metrics.attention import coverage, entropy, look
from regard.report.collect import Shown, System
from regard.report.curves import Curves
from regard.report.maps import Seen, word_maps
from regard.report.page import Report, render
from regard.report.scores import score_systems
from regard.report.worst import Received, Sentence

__all__ = ["PAIRS", "make_page", "make_report", "make_system"]

PAIRS = [
    ("ein roter Hund läuft .", "a red dog runs ."),
    ("</script><script>alert(1)</script> <!-- &amp; \"x\" 'y'", "<img src=x onerror=alert(2)> & <b> ]]>"),
    ("שלום \u202eעולם 👩‍👩‍👧 e\u0301", "peace , world \u2028 👍🏽 é"),
    ("", "nothing to read"),
    ("das Haus das Haus", "the house"),
    ("die Katze schläft", "the cat sleeps"),
]


def make_system(
    name: str, shift: int, outputs: list[str], heads: int = 1, every: bool = False, sink: bool = False
) -> System:
    """A system that looks at the word `shift` places on, with 0.75 or all of a step's attention.

    With a sink, half of every step's attention goes there.
    """
    sentences, attention = [], []
    for number, ((source, reference), output) in enumerate(zip(PAIRS, outputs, strict=True), 1):
        read, wanted, said = (tuple(text.split()) for text in (source, reference, output))
        links = (
            frozenset((i, i) for i in range(min(len(read), len(wanted)))),
            frozenset((i, i) for i in range(min(len(read), len(said)))),
        )
        maps: dict[str, object] = {}
        if not read:
            sentences.append(Shown(Sentence(number, read, wanted, said, None, links), output))
            attention.append(None)
            continue
        for key, words in (("own", said), ("forced", wanted)):
            layer = attend(len(words) + 1, len(read), shift, heads)
            if sink:
                layer = np.concatenate([layer / 2, np.full((*layer.shape[:2], 1), 0.5)], axis=2)
            prior = np.full_like(layer, 1 / layer.shape[2])
            ids = [*range(len(read)), *[-1] * sink], list(range(len(words)))
            after, before = (
                Seen(one[:-1].mean(axis=1), [one[:-1]] if every else []) for one in (layer, prior)
            )
            maps[key] = word_maps(words, read, after, *ids, before if every else None)
            if key == "own":
                received = layer[:-1].mean(axis=1).sum(axis=0)[: len(read)]
                looked = entropy(layer).mean(), coverage(layer[:-1].mean(axis=1))
            else:
                attention.append(look(layer, np.ones(len(words) + 1, dtype=bool), *ids))
        got = Received(
            tuple(received.tolist()), len(said) / 2 if sink else None, (1.0,) * len(read) if every else None
        )
        sentence = Sentence(number, read, wanted, said, got, links)
        figures = {"entropy": float(looked[0]), "coverage": looked[1], "log_prob": -0.25 * number}
        sentences.append(Shown(sentence, output, **maps, **figures))
    curves = Curves(((50.0, 40.0), (100.0, 12.0)), ((100.0, 14.0),), (("bleu", ((100.0, 21.0),)),), 100)
    return System(name, f"runs/{name}", tuple(sentences), tuple(attention), 3.5, curves, every)


def attend(steps: int, width: int, shift: int, heads: int) -> np.ndarray:
    weights = np.zeros((steps, heads, width))
    for t in range(steps):
        for head in range(heads):
            weights[t, head, (t + shift + head) % width] += 0.75
            weights[t, head, t % width] += 0.25
    return weights


def make_report() -> Report:
    """The report."""
    first = ["a dog dog dog runs .", "<i>said</i> & more", "peace world", "", "the house the house", "a cat"]
    second = [reference for _, reference in PAIRS]
    second[0] = "a red dog runs ."
    systems = [
        make_system("soft", 0, first),
        make_system("<b>bounded</b>", 1, second, heads=2, every=True),
    ]
    gold = [parse_gold("0-0 1-1 2p2"), *[parse_gold("")] * 5]
    scores = score_systems(systems, PAIRS, gold=gold, resamples=10)
    notes = ["A note with <i>markup</i>."]
    return Report("Report </title><b>", "in.txt", "ref.txt", PAIRS, systems, scores, gold, notes)


def make_page() -> str:
    """The page of it."""
    return render(make_report())
