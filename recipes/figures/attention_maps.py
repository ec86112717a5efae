"""Plot the attention of trained models to one sentence, as in the figures of the papers.

    python recipes/figures/attention_maps.py OUTPUT_DIR SENTENCE MODEL [MODEL] [--reference TRANSLATION]

It writes the attention map of each model's translation, with repeated words marked (Malaviya et al. (2018),
Figure 2), its history with one row per target word (Martins 2020), and the self-attention of the middle word
of a Transformer (Martins 2020). With two models and a reference, it also writes the difference of their maps
under forced decoding (Shankar & Sarawagi (2019), Figures 2 and 5).
"""

import argparse
from pathlib import Path

import regard
from regard.analysis.errors import SentenceErrors
from regard.plot.heatmap import attention_heatmap
from regard.plot.word_attention import history_figure, self_attention_figure


def plot_translation(name: str, model: regard.Translator, sentence: str, output_dir: Path) -> None:
    """Plot the attention map, the history and the self-attention of a translation."""
    translation = model.translate(sentence, output_attentions="all")
    weights, source, target = translation.attention_map, translation.source_tokens, translation.tokens
    repeated = SentenceErrors(1, source, (), target).repeated
    heat = attention_heatmap(weights, source, target, f"Attention of {name}", marked=repeated)
    heat.figure().save(output_dir / f"translation-{name}.svg")
    history_figure(weights, source, target, name).save(output_dir / f"history-{name}.svg")
    if translation.encoder_attention:
        layer = min(4, len(translation.encoder_attention) - 1)
        word = (len(source) - 1) // 2
        heads = translation.encoder_attention[layer][:, word]  # (H, S)
        title = f"Encoder, layer {layer}: self-attention of {source[word]!r}"
        figure = self_attention_figure(heads, source, word, title)
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
