"""The systems of the tour, in historical order."""

from dataclasses import dataclass

__all__ = ["SYSTEMS", "TourSystem"]


@dataclass(frozen=True)
class TourSystem:
    """A system of the tour.

    Attributes:
        name: The name of the recipe in `recipes/tour` and of the model directory.
        label: The name in the report.
        summary: A one-sentence description of the system's innovation.
        citation: The reference to the paper.
        aligner: The kind of word aligner of a word- or phrase-based system; empty for other systems.
    """

    name: str
    label: str
    summary: str
    citation: str
    aligner: str = ""


SYSTEMS = (
    TourSystem(
        "word",
        "words",
        "Words are translated with the table of IBM Model 1, and a language model selects their order.",
        "Brown et al. (1993)",
        aligner="ibm1",
    ),
    TourSystem(
        "phrase",
        "phrases",
        "Phrases are translated as units, and every source word is translated exactly once.",
        "Koehn et al. (2003)",
        aligner="bayes",
    ),
    TourSystem(
        "none",
        "no attention",
        "An encoder compresses the sentence into a vector, and a decoder generates the translation from it.",
        "Sutskever et al. (2014)",
    ),
    TourSystem(
        "soft",
        "attention",
        "For each generated token, the decoder attends to all source positions.",
        "Bahdanau et al. (2015)",
    ),
    TourSystem(
        "sparse",
        "sparse",
        "Sparsemax replaces softmax, so that most attention weights are exactly zero.",
        "Martins & Astudillo (2016)",
    ),
    TourSystem(
        "constrained",
        "constrained",
        "The total attention to a source word is bounded by its fertility, so that words that have been "
        "translated receive no further attention.",
        "Malaviya et al. (2018)",
    ),
    TourSystem(
        "posterior",
        "posterior",
        "Each target token is generated from one source word at a time; Bayes' rule then updates the "
        "attention.",
        "Shankar & Sarawagi (2019)",
    ),
    TourSystem(
        "conv",
        "convolutional",
        "Gated convolutions replace recurrence, and every decoder layer attends to the source.",
        "Gehring et al. (2017)",
    ),
    TourSystem(
        "transformer",
        "Transformer",
        "Multi-head self-attention in encoder and decoder replaces recurrence and convolution.",
        "Vaswani et al. (2017)",
    ),
    TourSystem(
        "hard",
        "hard",
        "The last layer selects single source words; reinforcement learning trains the selection.",
        "Indurthi et al. (2019)",
    ),
)
