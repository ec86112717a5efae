"""The model card of a system in the report: its kind, attention, size, training text and software."""

from dataclasses import dataclass
from importlib.metadata import version

from regard.analysis.inputs import System
from regard.version import __version__

__all__ = ["ModelCard", "model_card"]


@dataclass(frozen=True)
class ModelCard:
    """The properties of a system that a reader compares; None for one that is unknown.

    Attributes:
        kind: Kind of the model, such as `transformer`; `file` for a file of translations.
        paths: Its directories, or the file.
        attention: Attention mechanism, transformation of scores, score function, and fertilities.
        num_parameters: Number of parameters, or of entries of its table.
        num_pairs: Number of sentence pairs of its training text.
        num_tokens: Number of source and target tokens of its training text.
        tokenizers: Source and target tokenizer with the sizes of their vocabularies.
        software: The software that computed the translations, with versions.
    """

    kind: str
    paths: tuple[str, ...]
    attention: str | None = None
    num_parameters: int | None = None
    num_pairs: int | None = None
    num_tokens: tuple[int, int] | None = None
    tokenizers: str | None = None
    software: str | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the name, the value and the explanation of each known property."""
        pairs = None if self.num_pairs is None else f"{self.num_pairs:,} sentence pairs"
        if pairs is not None and self.num_tokens is not None:
            pairs += " ({:,} source and {:,} target tokens)".format(*self.num_tokens)
        parameters = None if self.num_parameters is None else f"{self.num_parameters:,}"
        properties = [
            ("kind", self.kind, "Kind of the model: model.kind in its configuration."),
            ("attention", self.attention, "Attention mechanism, normalizer, score function and fertilities."),
            ("parameters", parameters, "Number of parameters, or of entries of a phrase table."),
            ("training text", pairs, "Size of the training text after preprocessing."),
            (
                "tokenizer",
                self.tokenizers,
                "Tokenizers of source and target, with vocabulary sizes.",
            ),
            ("location", ", ".join(self.paths), "The model directory, or the file of translations."),
            ("software", self.software, "The software that computed the translations."),
        ]
        return [(name, value, tip) for name, value, tip in properties if value]


def model_card(system: System) -> ModelCard:
    """Return the model card of a system, without the size of its training text."""
    translator, description = system.translator, system.translator.describe()
    if description.kind == "file":
        return ModelCard(description.kind, system.paths)
    attention = [
        part
        for part in (description.attention, description.normalizer, description.score_function)
        if part is not None
    ]
    if translator.text.budget is not None:
        attention.append(f"fertility: {translator.text.budget.config.kind}")
    sides: list[str] = []
    for side in (translator.text.source, translator.text.target):
        kind = getattr(getattr(side.tokenizer, "config", None), "kind", "tokenizer")
        sides.append(f"{kind} ({len(side.vocabulary):,})")
    return ModelCard(
        description.kind,
        system.paths,
        ", ".join(attention),
        description.num_parameters,
        tokenizers=" → ".join(sides),
        software=f"regard {__version__}, PyTorch {version('torch')}",
    )
