"""Options of a phrase-based system: `model.kind = "phrase"`."""

from typing import Literal

from regard.alignment.bayes_sampler import BayesConfig
from regard.alignment.word_aligner import AlignerConfig
from regard.config import configclass, option
from regard.smt.extraction import MAX_PHRASE_LENGTH
from regard.smt.stack_search import MAX_DISTORTION_LIMIT

__all__ = ["PhraseConfig", "TuningConfig"]


@configclass
class TuningConfig:
    """Minimum error rate training (Och, 2003) on the validation text."""

    num_rounds: int = option(
        default=8, help="Maximum number of tuning rounds. 0 disables tuning.", ge=0, le=10_000
    )
    nbest_size: int = option(
        default=100, help="Size of the n-best list of each sentence in a round.", ge=1, le=100_000
    )
    num_restarts: int = option(
        default=4, help="Number of additional random starting points in each round.", ge=0, le=10_000
    )


@configclass
class PhraseConfig:
    """Phrase-based translation (Koehn et al., 2003)."""

    kind: Literal["phrase"] = option(default="phrase", help="A phrase-based model (Koehn et al., 2003).")
    aligner: AlignerConfig = option(default=BayesConfig, help="Word aligner, trained in both directions.")
    lowercase: bool = option(default=True, help="Whether the aligner lowercases the text.")
    max_phrase_length: int = option(
        default=MAX_PHRASE_LENGTH,
        help="Maximum length of a phrase in words, 1 to 7.",
        ge=1,
        le=MAX_PHRASE_LENGTH,
    )
    smoothing: Literal["kneser-ney", "none"] = option(
        default="kneser-ney",
        help='Smoothing of phrase probabilities; "none" uses relative frequencies.',
    )
    reordering: Literal["lexicalized", "distance"] = option(
        default="lexicalized",
        help="Reordering model: distance and orientation of each phrase, or distance only.",
    )
    lm_order: int = option(default=5, help="Order of the target language model, 1 to 9.", ge=1, le=9)
    monolingual: tuple[str, ...] = option(
        default=(), help="Additional text files for the language model, plain or gzip. Default: none."
    )
    stack_size: int = option(
        default=100, help="Maximum number of hypotheses that are extended per stack.", ge=1, le=100_000
    )
    max_options: int = option(
        default=20, help="Maximum number of translations that are tried per source phrase.", ge=1, le=10_000
    )
    distortion_limit: int = option(
        default=6,
        help="Maximum distance of a reordering jump in source words. 0 translates without reordering.",
        ge=0,
        le=MAX_DISTORTION_LIMIT,
    )
    tuning: TuningConfig = option(
        default=TuningConfig,
        help="Tuning of the feature weights by minimum error rate training (Och, 2003), for BLEU on "
        "data.valid.",
    )
