"""The metrics of reproduced tables, as statistics of every sentence of the test text.

Tokenized lowercased BLEU, METEOR, REP and DROP are computed on whole words, as in Malaviya et al. (2018);
perplexity and BLEU at several beam sizes as in Shankar & Sarawagi (2019). The statistics are stored by
sentence, so that confidence intervals can be computed without the text.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from regard.alignment import Corpus, WordAligner
from regard.errors import UsageError
from regard.extensions.reproduce.experiment_text import ExperimentText
from regard.extensions.reproduce.plan import GOLD_LINKS_HINT
from regard.generation.config import GenerationConfig
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.metrics.alignment import aer_from_counts, count_links
from regard.metrics.base import Aggregate, SentenceCounts, ratio
from regard.metrics.by_length import bucket_by_length, count_lengths
from regard.metrics.coverage import count_drops, count_repetitions
from regard.metrics.meteor import count_meteor, find_jar, find_java, meteor_from_counts
from regard.metrics.translation import count_statistics, count_transduction, make_aggregate
from regard.runs.loading import LoadedModel
from regard.text.links import check_links, read_gold_links
from regard.text.words import split_whitespace

LENGTH_BINS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+")
"""The bins of source lengths of Indurthi et al. (2019), Table 2."""


@dataclass
class ScoredSystem:
    """A trained model and the test text."""

    model: LoadedModel
    text: ExperimentText
    sources: list[str]
    references: list[str]
    search: GenerationConfig
    _outputs: dict[int, list[str]] = field(default_factory=dict)

    def outputs(self, beam_size: int | None = None) -> list[str]:
        """Return the model's translations with the given beam size. Default: that of `search`."""
        beam_size = beam_size or self.search.beam_size
        # Several metrics use the same translations, which are by far the slowest step.
        if beam_size not in self._outputs:
            search = dataclasses.replace(self.search, beam_size=beam_size)
            translator = NeuralTranslator(self.model.model, self.model.text, search)
            self._outputs[beam_size] = [
                result.text for result in translator.translate(enumerate_lines(self.sources))
            ]
        return self._outputs[beam_size]


def _bleu(system: ScoredSystem, beam: int | None = None) -> SentenceCounts:
    return count_statistics(
        "bleu", system.outputs(beam), [system.references], tokenize="none", lowercase=True
    )


def _sacrebleu(system: ScoredSystem, place: int | None = None) -> SentenceCounts:
    """Return the BLEU statistics of all sentences, or of those in one bin of source lengths."""
    # The default tokenizer `13a` makes the scores comparable with published sacreBLEU scores.
    counts = count_statistics("bleu", system.outputs(), [system.references])
    if place is None:
        return counts
    # The bins depend on the source alone, so that all systems have the same sentences in a bin.
    bucket = bucket_by_length(count_lengths(system.sources))[place]
    return dataclasses.replace(counts, rows=counts.rows[bucket.sentence_ids])


def _rep(system: ScoredSystem) -> SentenceCounts:
    outputs, references = (
        [split_whitespace(line) for line in lines] for lines in (system.outputs(), system.references)
    )
    return count_repetitions(outputs, references)


def _drop(system: ScoredSystem) -> SentenceCounts:
    # One aligner links reference and output, so that its errors affect both sides of the comparison.
    aligner = WordAligner.load(system.text.aligner)
    links = []
    for targets in (system.references, system.outputs()):
        pairs = (
            (split_whitespace(a), split_whitespace(b)) for a, b in zip(system.sources, targets, strict=True)
        )
        corpus = Corpus.from_tokens(pairs, aligner.words, allow_empty=True)
        links.append(list(aligner.align(corpus, "grow-diag-final-and")))
    return count_drops(links[0], links[1])


def _perplexity(system: ScoredSystem) -> SentenceCounts:
    """Return the negative log-likelihood in nats and the number of tokens of each reference, with EOS."""
    pairs = zip(system.sources, system.references, strict=True)
    counts = [
        # A pair that the model cannot score counts neither as tokens nor as likelihood.
        (0.0, 0) if line.error else (-line.log_probability, len(line.tokens) + 1)
        for line in NeuralTranslator(system.model.model, system.model.text, system.search).score(pairs)
    ]
    return SentenceCounts("PPL", "", np.array(counts), _perplexity_score)


def _transduction(metric: str, system: ScoredSystem) -> SentenceCounts:
    return count_transduction(metric, system.outputs(), [system.references])


def _alignment(name: str, score: Aggregate, system: ScoredSystem) -> SentenceCounts:
    """Return AER statistics of links to the source word with the highest attention."""
    assert system.text.gold_path is not None
    gold = list(read_gold_links(system.text.gold_path))
    pairs = zip(system.sources, system.references, strict=True)
    links = []
    translator = NeuralTranslator(system.model.model, system.model.text, system.search)
    for line, truth in zip(translator.score(pairs), gold, strict=True):
        if line.error:
            # A pair that the model cannot score has no links, so that it counts as an error.
            links.append(frozenset[tuple[int, int]]())
            continue
        words = {"source": len(line.source_words), "target": len(line.target_words)}
        check_links(truth.possible, words, f"{system.text.gold_path}:{line.number}", GOLD_LINKS_HINT)
        links.append(line.links)
    return SentenceCounts(name, "", count_links(links, gold), score)


def _perplexity_score(summed: np.ndarray) -> np.ndarray:
    # The likelihoods are summed before the division: perplexity is per token, not a mean of sentences.
    with np.errstate(over="ignore"):  # infinite, as in `regard.config.results.perplexity`
        return np.exp(summed[:, 0] / np.maximum(summed[:, 1], 1))


def _aer_percent(summed: np.ndarray) -> np.ndarray:
    return 100 * aer_from_counts(summed)


def _one_minus_aer_percent(summed: np.ndarray) -> np.ndarray:
    return 100 - _aer_percent(summed)


def _bleu_score(summed: np.ndarray) -> np.ndarray:
    # Counts of n-grams determine BLEU, whichever tokenizer they come from.
    return make_aggregate("bleu")(summed)


@dataclass(frozen=True)
class MetricFunctions:
    """The function that counts the statistics of each sentence, and that from summed statistics to scores."""

    count: Callable[[ScoredSystem], SentenceCounts]
    aggregate: Aggregate


METRIC_FUNCTIONS = {
    "bleu": MetricFunctions(_bleu, _bleu_score),
    "bleu-4": MetricFunctions(partial(_bleu, beam=4), _bleu_score),
    "bleu-10": MetricFunctions(partial(_bleu, beam=10), _bleu_score),
    "sacrebleu": MetricFunctions(_sacrebleu, _bleu_score),
    **{
        f"sacrebleu:{label}": MetricFunctions(partial(_sacrebleu, place=place), _bleu_score)
        for place, label in enumerate(LENGTH_BINS)
    },
    "meteor": MetricFunctions(
        lambda system: count_meteor(system.outputs(), [system.references]), meteor_from_counts
    ),
    "rep": MetricFunctions(_rep, ratio(100.0)),
    "drop": MetricFunctions(_drop, ratio(100.0)),
    "accuracy": MetricFunctions(partial(_transduction, "accuracy"), ratio(100.0)),
    "edits": MetricFunctions(partial(_transduction, "edits"), ratio()),
    "aer": MetricFunctions(partial(_alignment, "AER", _aer_percent), _aer_percent),
    "one-minus-aer": MetricFunctions(
        partial(_alignment, "1 - AER", _one_minus_aer_percent), _one_minus_aer_percent
    ),
    "perplexity": MetricFunctions(_perplexity, _perplexity_score),
}


def unavailable_reason(metric: str, target: str) -> str | None:
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
