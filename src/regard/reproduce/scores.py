"""The metrics of reproduced tables, as statistics of every sentence of the test text.

Tokenized lowercased BLEU, METEOR, REP and DROP are computed on whole words, as in Malaviya et al. (2018);
perplexity and BLEU at several beam sizes as in Shankar & Sarawagi (2019). The statistics are stored by
sentence, so that confidence intervals can be computed without the text.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from regard.alignment import Corpus, WordAligner
from regard.data.links import check_links, read_gold
from regard.data.spacing import split_at_spaces
from regard.decoding.analysis import force_lines
from regard.decoding.config import SearchConfig
from regard.decoding.scoring import score_lines
from regard.decoding.translate import Translator, number_lines
from regard.errors import UsageError
from regard.experiment import LoadedModel
from regard.metrics.alignment import alignment_error, count_links
from regard.metrics.by_length import count_lengths, cut_by_length
from regard.metrics.counts import SentenceCounts
from regard.metrics.coverage import count_drops, count_repetitions, percentage
from regard.metrics.meteor import count_meteor, find_jar, find_java, score_counts
from regard.metrics.significance import Aggregate
from regard.metrics.transduction import count_transduction, mean_edits
from regard.metrics.translation import aggregate, count
from regard.reproduce.tables import LENGTHS
from regard.reproduce.texts import ExperimentText

__all__ = ["SCORERS", "Scorer", "System", "available", "counts_bytes", "read_counts"]


@dataclass
class System:
    """A trained model and the test text.

    Attributes:
        loaded: The model.
        text: The text of the experiment.
        split: The split that is used as the test set.
        search: The search options.
    """

    loaded: LoadedModel
    text: ExperimentText
    split: str
    search: SearchConfig
    _outputs: dict[int, list[str]] = field(default_factory=dict)

    @cached_property
    def sources(self) -> list[str]:
        """The source sentences."""
        return self.text.lines(self.split, "source")

    @cached_property
    def references(self) -> list[str]:
        """The reference translations."""
        return self.text.lines(self.split, "target")

    def outputs(self, beam: int | None = None) -> list[str]:
        """Return the model's translations with the given beam size. Default: that of `search`."""
        beam = beam or self.search.beam
        if beam not in self._outputs:
            search = dataclasses.replace(self.search, beam=beam)
            translator = Translator(self.loaded.model, self.loaded.text, search)
            self._outputs[beam] = [found.text for found in translator.translate(number_lines(self.sources))]
        return self._outputs[beam]


def _bleu(system: System, beam: int | None = None) -> SentenceCounts:
    return count("bleu", system.outputs(beam), [system.references], tokenize="none", lowercase=True)


def _sacrebleu(system: System) -> SentenceCounts:
    return count("bleu", system.outputs(), [system.references])


def _sacrebleu_of(system: System, place: int) -> SentenceCounts:
    """Return the BLEU statistics of the sentences in one bin of source lengths."""
    found = _sacrebleu(system)
    bucket = cut_by_length(count_lengths(system.sources))[place]
    return dataclasses.replace(found, rows=found.rows[bucket.rows])


def _meteor(system: System) -> SentenceCounts:
    return count_meteor(system.outputs(), [system.references])


def _rep(system: System) -> SentenceCounts:
    outputs, references = (
        [split_at_spaces(line) for line in lines] for lines in (system.outputs(), system.references)
    )
    return count_repetitions(outputs, references)


def _drop(system: System) -> SentenceCounts:
    aligner = WordAligner.load(system.text.aligner)
    links = []
    for targets in (system.references, system.outputs()):
        pairs = (
            (split_at_spaces(a), split_at_spaces(b)) for a, b in zip(system.sources, targets, strict=True)
        )
        corpus = Corpus.from_tokens(pairs, aligner.words, allow_empty=True)
        links.append(list(aligner.align(corpus, "grow-diag-final-and", system.loaded.config.threads)))
    return count_drops(links[0], links[1])


def _perplexity(system: System) -> SentenceCounts:
    """Return the negative log-likelihood in nats and the number of tokens of each reference, with EOS."""
    pairs = zip(system.sources, system.references, strict=True)
    found = [
        (0.0, 0) if line.hypothesis is None else (-line.hypothesis.log_probability, len(line.tokens) + 1)
        for line in score_lines(system.loaded.model, system.loaded.text, pairs, system.search)
    ]
    return SentenceCounts("PPL", "", np.array(found), _exponential)


def _transduction(system: System, name: str) -> SentenceCounts:
    return count_transduction(name, system.outputs(), [system.references])


def _alignment(system: System, name: str, score: Aggregate) -> SentenceCounts:
    """Return AER statistics of links to the source word with the highest attention."""
    assert system.text.gold is not None
    gold = list(read_gold(system.text.gold))
    pairs = zip(system.sources, system.references, strict=True)
    links = []
    model, text = system.loaded.model, system.loaded.text
    for line, truth in zip(force_lines(model, text, pairs, system.search), gold, strict=True):
        if line is None:
            # A pair that the model cannot score has no links, so that it counts as an error.
            links.append(frozenset[tuple[int, int]]())
            continue
        words = {"source": len(line.source), "target": len(line.target)}
        where = f"{system.text.gold}:{line.number}"
        check_links(truth.possible, words, where, ": is --target the language of the second?")
        links.append(line.links(system.search.alignment))
    return SentenceCounts(name, "", count_links(links, gold), score)


def _error(summed: np.ndarray) -> np.ndarray:
    return 100 * alignment_error(summed)


def _agreement(summed: np.ndarray) -> np.ndarray:
    return 100 - _error(summed)


def _exponential(summed: np.ndarray) -> np.ndarray:
    return np.exp(summed[:, 0] / np.maximum(summed[:, 1], 1))


@dataclass(frozen=True)
class Scorer:
    """A metric.

    Attributes:
        count: A function that returns the statistics of each sentence of a system.
        aggregate: A function that returns the aggregate, which computes scores from summed statistics.
    """

    count: Callable[[System], SentenceCounts]
    aggregate: Callable[[], Aggregate]


def _bleu_aggregate() -> Aggregate:
    return aggregate("bleu", tokenize="none", lowercase=True)


SCORERS = {
    "bleu": Scorer(_bleu, _bleu_aggregate),
    "bleu-4": Scorer(partial(_bleu, beam=4), _bleu_aggregate),
    "bleu-10": Scorer(partial(_bleu, beam=10), _bleu_aggregate),
    "sacrebleu": Scorer(_sacrebleu, lambda: aggregate("bleu")),
    **{
        f"sacrebleu:{label}": Scorer(partial(_sacrebleu_of, place=place), lambda: aggregate("bleu"))
        for place, label in enumerate(LENGTHS)
    },
    "meteor": Scorer(_meteor, lambda: score_counts),
    "rep": Scorer(_rep, lambda: percentage),
    "drop": Scorer(_drop, lambda: percentage),
    "accuracy": Scorer(partial(_transduction, name="accuracy"), lambda: percentage),
    "edits": Scorer(partial(_transduction, name="edits"), lambda: mean_edits),
    "aer": Scorer(partial(_alignment, name="AER", score=_error), lambda: _error),
    "one-minus-aer": Scorer(partial(_alignment, name="1 - AER", score=_agreement), lambda: _agreement),
    "perplexity": Scorer(_perplexity, lambda: _exponential),
}


def available(metric: str, target: str) -> str | None:
    """Return why a metric is not available for a target language on this machine, or None if it is."""
    if metric != "meteor":
        return None
    if target != "en":
        return "METEOR supports English only"
    try:
        find_java()
        find_jar()
    except UsageError as error:
        return str(error)
    return None


def counts_bytes(counts: dict[str, np.ndarray]) -> bytes:
    """Return the content of a safetensors file with the sentence statistics of each metric."""
    return save({name: np.ascontiguousarray(own) for name, own in counts.items()})


def read_counts(path: Path) -> dict[str, np.ndarray]:
    """Read the sentence statistics of each metric."""
    return load_file(path)
