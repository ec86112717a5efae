"""Plot the attention of trained models to one sentence, as in the figures of the papers.

    python recipes/figures/attention_maps.py OUTPUT_DIR SENTENCE MODEL [MODEL] [--reference TRANSLATION]

It writes the attention map of each model's translation, with repeated words marked (Malaviya et al. (2018),
Figure 2), its history with one row per target word (Martins 2020), and the self-attention of the middle word
of a Transformer (Martins 2020). With two models and a reference, it also writes the difference of their maps
under forced decoding (Shankar & Sarawagi (2019), Figures 2 and 5).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib import figure as pictures

import regard
from regard.analysis.errors import SentenceErrors
from regard.plot import Figure, attention_heatmap

BLUES = colormaps["Blues"].with_extremes(under="white")


def history_picture(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> pictures.Figure:
    """Return the source sentence once per target word, shaded by attention; exactly 0 is white."""
    picture = pictures.Figure(figsize=(1 + 0.9 * len(source), 0.5 + 0.3 * len(target)))
    ax = picture.subplots()
    ax.pcolormesh(weights, cmap=BLUES, vmin=1e-9, vmax=1, edgecolors="white", linewidth=3)
    for t, row in enumerate(weights):
        for s, weight in enumerate(row):
            color = "white" if weight > 0.45 else "black"
            ax.text(s + 0.5, t + 0.5, source[s], ha="center", va="center", color=color)
    ax.set(xticks=[], ylim=(len(target), 0))
    ax.set_yticks(np.arange(len(target)) + 0.5, target)
    ax.grid(False)
    return picture


def self_attention_picture(heads: np.ndarray, words: Sequence[str], word: int) -> pictures.Figure:
    """Return lines from a word to all words, one color per head, as strong as the attention [H, S]."""
    picture = pictures.Figure(figsize=(4.5, 0.8 + 0.3 * len(words)))
    ax = picture.subplots()
    for h, row in enumerate(heads):
        # The lines of the heads lie side by side, so that equal links of two heads stay visible.
        start = word + 0.08 * (h - (len(heads) - 1) / 2)
        for s, weight in enumerate(row):
            strength = {"color": f"C{h}", "alpha": float(weight) ** 0.7, "linewidth": 1 + 2 * weight}
            ax.plot([0, 1], [start, s], **strength)
            ax.scatter(1.04 + 0.05 * h, s, marker="s", color=f"C{h}", alpha=float(weight))
    for s, name in enumerate(words):
        ax.text(-0.03, s, name, ha="right", va="center", fontweight="bold" if s == word else "normal")
        ax.text(1.06 + 0.05 * len(heads), s, name, va="center")
    ax.set(xlim=(0, 1.05 + 0.05 * len(heads)), ylim=(len(words) - 0.5, -0.5))
    ax.set_axis_off()
    return picture


def plot_translation(name: str, model: regard.Translator, sentence: str, output_dir: Path) -> None:
    """Plot the attention map, the history and the self-attention of a translation."""
    translation = model.translate(sentence, output_attentions="all")
    weights, source, target = translation.attention_map, translation.source_tokens, translation.tokens
    repeated = SentenceErrors(1, source, (), target).repeated
    heat = attention_heatmap(weights, source, target, f"Attention of {name}", marked=repeated)
    heat.figure().save(output_dir / f"translation-{name}.svg")
    history = Figure(f"History of {name}", "", lambda: history_picture(weights, source, target))
    history.save(output_dir / f"history-{name}.svg")
    if translation.encoder_attention:
        layer = min(4, len(translation.encoder_attention) - 1)
        word = (len(source) - 1) // 2
        heads = translation.encoder_attention[layer][:, word]  # (H, S)
        title = f"Encoder, layer {layer}: self-attention of {source[word]!r}"
        figure = Figure(title, "", lambda: self_attention_picture(heads, source, word))
        figure.save(output_dir / f"self-attention-{name}.svg")


def main() -> None:
    """Write all figures."""
    parser = argparse.ArgumentParser(description="Plot the attention of one or two models to a sentence.")
    parser.add_argument("output_dir", type=Path)
    parser.add_argument("sentence")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--reference")
    arguments = parser.parse_args()
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    models = {path.name: regard.load(path) for path in arguments.models}
    for name, model in models.items():
        plot_translation(name, model, arguments.sentence, arguments.output_dir)
    if arguments.reference is not None and len(models) == 2:
        first, second = (
            model.score([arguments.sentence], [arguments.reference])[0] for model in models.values()
        )
        names = tuple(models)
        figure = first.plot_difference(second, (names[0], names[1]))
        figure.save(arguments.output_dir / "difference.svg")


if __name__ == "__main__":
    main()
