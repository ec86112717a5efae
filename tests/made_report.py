"""A report on made-up data: two systems and source texts that contain markup.

One of the systems has bounded attention.
"""

import numpy as np

from regard.analysis.errors import SentenceErrors
from regard.metrics.attention import attention_statistics, coverage, entropy
from regard.metrics.coverage import ReceivedAttention
from regard.reporting.model_card import Curves
from regard.reporting.page import Report, render
from regard.reporting.scores import compute_scores
from regard.reporting.systems import SentenceResult, SystemResults
from regard.reporting.word_maps import word_map
from regard.text.links import parse_gold_links

PAIRS = [
    ("ein roter Hund läuft .", "a red dog runs ."),
    ("</script><script>alert(1)</script> <!-- &amp; \"x\" 'y'", "<img src=x onerror=alert(2)> & <b> ]]>"),
    ("שלום \u202eעולם 👩‍👩‍👧 e\u0301", "peace , world \u2028 👍🏽 é"),
    ("", "nothing to read"),
    ("das Haus das Haus", "the house"),
    ("die Katze schläft", "the cat sleeps"),
]


def stored_weights(levels):
    """Return the weights of quantized weights, between 0 and 1, as the page computes them."""
    return np.square(levels / 255)


def make_system(
    name: str, shift: int, outputs: list[str], heads: int = 1, bounded: bool = False, sink: bool = False
) -> SystemResults:
    """Return a system that attends to the word `shift` positions to the right.

    Each step puts at least 0.75 of its attention on that word, and the rest on the word at its own position.

    Args:
        name: The name of the system.
        shift: Distance between the position of a step and the word that it attends to.
        outputs: The translations, one per pair.
        heads: Number of heads; head k attends k positions further right.
        bounded: Whether source words have fertilities of 1.
        sink: Add a sink that receives half of the attention of each step.
    """
    sentences, attention = [], []
    for number, ((source, reference), output) in enumerate(zip(PAIRS, outputs, strict=True), 1):
        source_words, reference_words, output_words = (
            tuple(text.split()) for text in (source, reference, output)
        )
        links = (
            frozenset((i, i) for i in range(min(len(source_words), len(reference_words)))),
            frozenset((i, i) for i in range(min(len(source_words), len(output_words)))),
        )
        maps: dict[str, object] = {}
        if not source_words:
            sentences.append(
                SentenceResult(
                    SentenceErrors(number, source_words, reference_words, output_words, None, links), output
                )
            )
            attention.append(None)
            continue
        for key, words in (("own_map", output_words), ("forced_map", reference_words)):
            layer = attend(len(words) + 1, len(source_words), shift, heads)
            if sink:
                layer = np.concatenate([layer / 2, np.full((*layer.shape[:2], 1), 0.5)], axis=2)
            ids = [*range(len(source_words)), *[-1] * sink], list(range(len(words)))
            maps[key] = word_map(words, source_words, layer[:-1].mean(axis=1), *ids)
            if key == "own_map":
                received = layer[:-1].mean(axis=1).sum(axis=0)[: len(source_words)]
                stats = entropy(layer).mean(), coverage(layer[:-1].mean(axis=1))
            else:
                attention.append(attention_statistics(layer, np.ones(len(words) + 1, dtype=bool), *ids))
        got = ReceivedAttention(
            tuple(received.tolist()),
            len(output_words) / 2 if sink else None,
            (1.0,) * len(source_words) if bounded else None,
        )
        sentence = SentenceErrors(number, source_words, reference_words, output_words, got, links)
        figures = {"entropy": float(stats[0]), "coverage": stats[1], "log_prob": -0.25 * number}
        sentences.append(SentenceResult(sentence, output, **maps, **figures))
    curves = Curves(((50.0, 40.0), (100.0, 12.0)), ((100.0, 14.0),), {"bleu": ((100.0, 21.0),)})
    return SystemResults(name, f"runs/{name}", tuple(sentences), tuple(attention), 3.5, curves, bounded)


def attend(steps: int, width: int, shift: int, heads: int) -> np.ndarray:
    """Return attention weights of shape (steps, heads, width)."""
    weights = np.zeros((steps, heads, width))
    for t in range(steps):
        for head in range(heads):
            weights[t, head, (t + shift + head) % width] += 0.75
            weights[t, head, t % width] += 0.25
    return weights


def make_report() -> Report:
    first = ["a dog dog dog runs .", "<i>well</i> & more", "peace world", "", "the house the house", "a cat"]
    second = [reference for _, reference in PAIRS]
    second[0] = "a red dog runs ."
    systems = [
        make_system("soft", 0, first),
        make_system("<b>bounded</b>", 1, second, heads=2, bounded=True),
    ]
    gold = [parse_gold_links("0-0 1-1 2p2"), *[parse_gold_links("")] * 5]
    scores = compute_scores(systems, PAIRS, gold=gold, num_resamples=10)
    notes = ["A note with <i>markup</i>."]
    return Report("Report </title><b>", "in.txt", "ref.txt", PAIRS, systems, scores, gold, notes)


def make_page() -> str:
    return render(make_report())
