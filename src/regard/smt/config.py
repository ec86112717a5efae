"""The configuration of a phrase-based system: `model.kind = "phrase"`."""

from typing import Literal

from regard.alignment.bayes import BayesConfig
from regard.alignment.registry import AlignerConfig
from regard.config import config, option
from regard.smt.extraction import LONGEST
from regard.smt.stacks import FARTHEST

__all__ = ["PhraseConfig", "TuningConfig"]


@config
class TuningConfig:
    """Minimum error rate training (Och 2003) on the validation text."""

    rounds: int = option(
        default=8, help="How often the weights are changed, at most; 0: never.", ge=0, le=10_000
    )
    nbest: int = option(
        default=100, help="Translations of each sentence that a round adds.", ge=1, le=100_000
    )
    restarts: int = option(
        default=4, help="Random starts of the search for weights in each round.", ge=0, le=10_000
    )


@config
class PhraseConfig:
    """Phrase-based translation (Koehn et al. 2003)."""

    kind: Literal["phrase"] = option(default="phrase", help="Phrase-based translation.")
    aligner: AlignerConfig = option(default=BayesConfig, help="The word aligner, trained in both directions.")
    lowercase: bool = option(default=True, help="Whether the aligner ignores case.")
    max_phrase: int = option(default=LONGEST, help="The most words of a phrase.", ge=1, le=LONGEST)
    smoothing: Literal["kneser-ney", "none"] = option(
        default="kneser-ney", help="Of phrase probabilities; none: relative frequencies."
    )
    reordering: Literal["lexicalised", "distance"] = option(
        default="lexicalised",
        help="Orientations of phrases beside the distance of jumps, or the distance alone.",
    )
    order: int = option(default=5, help="The order of the target language model.", ge=1, le=9)
    monolingual: tuple[str, ...] = option(
        default=(), help="More target text for the language model: files, plain or gzip."
    )
    stack: int = option(default=100, help="Hypotheses of each stack that are extended.", ge=1, le=100_000)
    options: int = option(default=20, help="Translations tried for each source phrase.", ge=1, le=10_000)
    distortion_limit: int = option(
        default=6, help="How many source words a phrase may jump over.", ge=0, le=FARTHEST
    )
    tuning: TuningConfig = option(default=TuningConfig, help="How its weights are tuned.")
