"""The stops of the tour, in the order in which the field came by them."""

from dataclasses import dataclass

__all__ = ["STOPS", "Stop"]


@dataclass(frozen=True)
class Stop:
    """A system.

    Attributes:
        name: Of its recipe in `recipes/tour` and of its model folder.
        label: For people.
        says: What is new in it, in a sentence.
        source: Where it comes from.
        aligner: Of a system that translates by word links: the kind of aligner they come from; else empty.
    """

    name: str
    label: str
    says: str
    source: str
    aligner: str = ""


STOPS = (
    Stop(
        "word",
        "words",
        "A word is translated by IBM Model 1's table, and a language model chooses among the orders.",
        "Brown et al. (1993)",
        aligner="ibm1",
    ),
    Stop(
        "phrase",
        "phrases",
        "Phrases are translated whole, and every source word exactly once.",
        "Koehn et al. (2003)",
        aligner="bayes",
    ),
    Stop(
        "none",
        "no attention",
        "One network reads the sentence into a vector, another writes it out again.",
        "Sutskever et al. (2014)",
    ),
    Stop(
        "soft",
        "attention",
        "For every word it writes, the network looks back at all words of the source.",
        "Bahdanau et al. (2015)",
    ),
    Stop(
        "sparse",
        "sparse",
        "Most words get exactly nothing: sparsemax in the place of softmax.",
        "Martins & Astudillo (2016)",
    ),
    Stop(
        "constrained",
        "constrained",
        "No word gets more than its fertility: what has been translated is closed to what comes after.",
        "Malaviya et al. (2018)",
    ),
    Stop(
        "posterior",
        "posterior",
        "Attention is a choice among words, corrected once the word that it produced is known.",
        "Shankar & Sarawagi (2019)",
    ),
    Stop(
        "conv",
        "convolutional",
        "No recurrence: gated convolutions, and attention in every layer of the decoder.",
        "Gehring et al. (2017)",
    ),
    Stop(
        "transformer",
        "Transformer",
        "Attention alone, of both texts to themselves too, with several heads in every layer.",
        "Vaswani et al. (2017)",
    ),
    Stop(
        "hard",
        "hard",
        "The last layer reads a word or leaves it, and learns by reward which to read.",
        "Indurthi et al. (2019)",
    ),
)
