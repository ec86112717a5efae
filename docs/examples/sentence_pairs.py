"""A BERT-type encoder with sparse attention, pre-trained and fine-tuned to classify sentence pairs.

    python docs/examples/sentence_pairs.py [--attention sparsemax] [--steps 1500]

The encoder is a `BertModel` of transformers whose self-attention is replaced by that of `regard.hf`. Its
input is a German and an English sentence of the phrasebook. Half of the steps pre-train it with masked tokens
(Devlin et al., 2019) on translations. The other half fine-tune it to distinguish translations from sentences
that translate another sentence. With sparsemax, most weights are exactly zero.
"""

import argparse
import random

import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

import regard.hf
from regard.extensions.phrasebook.corpus import CorpusPair, generate_splits

PAD, CLS, SEP, MASK, UNK = range(5)
LONGEST = 60


def vocabulary(pairs: list[CorpusPair]) -> dict[str, int]:
    """Return the number of each word of both languages, after the special symbols."""
    words = sorted({word for pair in pairs for word in (*pair.source, *pair.target)})
    return {word: number for number, word in enumerate(words, UNK + 1)}


def encode(pairs: list[tuple[CorpusPair, CorpusPair]], words: dict[str, int]) -> dict[str, torch.Tensor]:
    """Return the padded input: the German sentence of the first and the English one of the second pair."""
    rows, types = [], []
    for german, english in pairs:
        source = [CLS, *(words.get(word, UNK) for word in german.source), SEP]
        target = [*(words.get(word, UNK) for word in english.target), SEP]
        rows.append((source + target)[:LONGEST])
        types.append(([0] * len(source) + [1] * len(target))[:LONGEST])
    width = max(map(len, rows))
    padded = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    segments = torch.tensor([row + [0] * (width - len(row)) for row in types])
    return {"input_ids": padded, "token_type_ids": segments, "attention_mask": (padded != PAD).long()}


def masked(ids: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input with 15 % of the words masked, and the labels, which are -100 elsewhere."""
    chosen = (torch.rand(ids.shape, generator=generator) < 0.15) & (ids > UNK)
    return ids.masked_fill(chosen, MASK), ids.masked_fill(~chosen, -100)


def sample_pairs(
    pairs: list[CorpusPair], size: int, generator: random.Random
) -> tuple[list[tuple[CorpusPair, CorpusPair]], torch.Tensor]:
    """Return pairs and their labels: 1 for a translation, 0 for the translation of another sentence."""
    first = generator.choices(pairs, k=size)
    labels = [generator.randrange(2) for _ in first]
    others = generator.choices(pairs, k=size)
    chosen = [(one, one if label else other) for one, other, label in zip(first, others, labels, strict=True)]
    return chosen, torch.tensor([int(a.target == b.target) for a, b in chosen])


def main() -> None:
    """Pre-train, fine-tune and evaluate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--attention", default="sparsemax", choices=sorted(regard.hf.ATTENTION_NAMES))
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    torch.manual_seed(1)
    generator, sampler = random.Random(1), torch.Generator().manual_seed(1)
    splits = generate_splits({"train": 2000, "test": 500}, seed=1)
    train, test = splits["train"], splits["test"]
    words = vocabulary(train)
    config = BertConfig(
        vocab_size=len(words) + UNK + 1, hidden_size=96, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=192, max_position_embeddings=LONGEST, pad_token_id=PAD, num_labels=2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config._attn_implementation = options.attention
    language_model, classifier = BertForMaskedLM(config), BertForSequenceClassification(config)
    # One encoder for both tasks; the classifier adds a pooling layer to it.
    language_model.bert.embeddings = classifier.bert.embeddings
    language_model.bert.encoder = classifier.bert.encoder
    parameters = {id(one): one for part in (language_model, classifier) for one in part.parameters()}
    optimizer = torch.optim.Adam(parameters.values(), lr=1e-3)
    for step in range(options.steps):
        if step < options.steps // 2:
            chosen = [(one, one) for one in generator.choices(train, k=32)]
            batch = encode(chosen, words)
            batch["input_ids"], labels = masked(batch["input_ids"], sampler)
            loss = language_model(**batch, labels=labels).loss
        else:
            chosen, labels = sample_pairs(train, 32, generator)
            loss = F.cross_entropy(classifier(**encode(chosen, words)).logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    classifier.eval()
    chosen, labels = sample_pairs(test, 500, random.Random(2))
    batch = encode(chosen, words)
    with torch.no_grad():
        found = classifier(**batch, output_attentions=True)
    print(f"accuracy on 500 new pairs: {(found.logits.argmax(-1) == labels).float().mean():.1%}")
    # Only queries and keys that are no padding.
    real = batch["attention_mask"].bool()
    both = (real[:, :, None] & real[:, None, :])[:, None]
    zeros = [(weights == 0)[both.expand_as(weights)].float().mean() for weights in found.attentions]
    print(f"weights that are exactly zero: {torch.stack(zeros).mean():.1%}")


if __name__ == "__main__":
    main()
