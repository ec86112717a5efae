"""Write docs/notebooks/hf_sparse_attention.ipynb, whose cells are in this file.

    python tools/make_notebook.py [--run] [--steps N]

The notebook is written without outputs. With `--run`, its cells are also executed in one process, as a test
does (tests/extensions/hf/test_notebook.py); `--steps` replaces the number of training steps.
"""

import argparse
from pathlib import Path

import nbformat

PATH = Path(__file__).parents[1] / "docs" / "notebooks" / "hf_sparse_attention.ipynb"

CELLS = [
    """# Sparse attention in a BERT-type model

This notebook makes a small BERT-type model, trains it with softmax on the built-in phrasebook, and fine-tunes
it with `attn_implementation="sparsemax"`. The input is a German sentence and its English translation, in
which one word is masked; the model predicts this word.""",
    """import random
from collections import Counter
from itertools import islice

import torch
from transformers import BertConfig, BertForMaskedLM

import regard.hf
from regard.extensions.phrasebook.corpus import generate
from regard.plot import attention_heatmap

torch.manual_seed(1)
sampled = [pair for pair in islice(generate(seed=1), 20_000) if max(len(pair.source), len(pair.target)) < 9]
counts = Counter(word for pair in sampled for word in (*pair.source, *pair.target))
common = {word for word, _ in counts.most_common(600)}
pairs = [pair for pair in sampled if common.issuperset((*pair.source, *pair.target))]
words = sorted({word for pair in pairs for word in (*pair.source, *pair.target)})
vocabulary = {word: i for i, word in enumerate(["[PAD]", "[SEP]", "[MASK]", *words])}
len(pairs), len(vocabulary)""",
    """Each example is `German words [SEP] English words`. One English word is masked, and the loss is that of
this word.""",
    '''LENGTH = 17


def make_batch(chosen, generator):
    """Return ids, their mask and labels, which are -100 at all positions but the masked ones."""
    ids = torch.zeros(len(chosen), LENGTH, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for row, pair in enumerate(chosen):
        line = [vocabulary[word] for word in (*pair.source, "[SEP]", *pair.target)]
        place = len(pair.source) + 1 + generator.randrange(len(pair.target))
        ids[row, : len(line)] = torch.tensor(line)
        labels[row, place] = ids[row, place]
        ids[row, place] = vocabulary["[MASK]"]
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def train(model, steps, rate):
    """Train and return the mean loss of the last 20 steps."""
    generator, losses = random.Random(1), []
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    model.train()
    for _ in range(steps):
        loss = model(**make_batch(generator.sample(pairs[200:], 64), generator)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return sum(losses[-20:]) / len(losses[-20:])


def evaluate(model):
    """Return the accuracy of the masked words and the share of weights of exactly 0, on held-out pairs."""
    batch = make_batch(pairs[:200], random.Random(2))
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    asked = batch["labels"] >= 0
    accuracy = (output.logits.argmax(-1) == batch["labels"])[asked].float().mean()
    real = batch["attention_mask"].bool()
    both = real[:, None, :, None] & real[:, None, None, :]
    weights = torch.stack(output.attentions)
    zeros = (weights == 0)[both.expand_as(weights[0])[None].expand_as(weights)].float().mean()
    return round(accuracy.item(), 3), round(zeros.item(), 3)''',
    """The model, with the attention of the library.""",
    """config = BertConfig(
    vocab_size=len(vocabulary),
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    attn_implementation="eager",
)
model = BertForMaskedLM(config)
STEPS = 400
train(model, STEPS, 2e-3), evaluate(model)""",
    """`import regard.hf` has registered the transformations. The model keeps its parameters and gets another
attention. It is evaluated before and after fine-tuning; most attention weights are then exactly 0.""",
    """model.set_attn_implementation("sparsemax")
before = evaluate(model)
train(model, STEPS // 3, 1e-3)
before, evaluate(model)""",
    """The attention of each head of the last layer, one row per query. White cells are exactly 0.""",
    """import matplotlib.pyplot as plt

pair = pairs[3]
line = [*pair.source, "[SEP]", *pair.target]
place = len(pair.source) + 2
ids = torch.tensor([[vocabulary[word] for word in line]])
line[place], ids[0, place] = "[MASK]", vocabulary["[MASK]"]
with torch.no_grad():
    heads = model(ids, output_attentions=True).attentions[-1][0]
figure, axes = plt.subplots(2, 2, figsize=(11, 11))
for head, ax in enumerate(axes.flat):
    attention_heatmap(heads[head].numpy(), line, line).figure().plot_on(ax)
    ax.set_title(f"head {head}")
figure.tight_layout()""",
    """A budget bounds the total attention that a word receives from all queries. No word can then receive
most of the attention of a sentence.""",
    """model.set_attn_implementation("constrained_sparsemax")
received = {}
for fertility in (1.2, 2.0, float("inf")):
    with torch.no_grad(), regard.hf.attention_budget(fertility):
        weights = model(ids, output_attentions=True).attentions[-1][0]
    received[fertility] = round(weights.sum(1).max().item(), 3)
received""",
]


def notebook() -> nbformat.NotebookNode:
    """Return the notebook."""
    made = nbformat.v4.new_notebook()
    for number, text in enumerate(CELLS):
        is_code = number % 2 == 1
        cell = (nbformat.v4.new_code_cell if is_code else nbformat.v4.new_markdown_cell)(text)
        cell["id"] = f"cell-{number}"  # a random id would change the file each time
        made.cells.append(cell)
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made.metadata["language_info"] = {"name": "python"}
    return made


def run(steps: int | None = None) -> dict[str, object]:
    """Execute the code cells and return the names they define."""
    names: dict[str, object] = {}
    for number, text in enumerate(CELLS):
        if number % 2 == 1:
            exec(text if steps is None else text.replace("STEPS = 400", f"STEPS = {steps}"), names)
    return names


def main() -> None:
    """Write the notebook, and execute it on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="also execute the cells")
    parser.add_argument("--steps", type=int, help="number of training steps, instead of 400")
    options = parser.parse_args()
    PATH.parent.mkdir(exist_ok=True)
    nbformat.write(notebook(), PATH)
    if options.run:
        names = run(options.steps)
        print(names["before"], names["evaluate"](names["model"]), names["received"])  # pyright: ignore


if __name__ == "__main__":
    main()
