"""Quick training of coverage models, for tests that do not measure their quality on real text."""

import pytest

from regard.alignment.bayes_sampler import BayesConfig

EFFORT = 0.1


def train_quickly(patch: pytest.MonkeyPatch, examples: int = 600) -> None:
    """Let the training use this number of examples, and a tenth of the passes of the Bayesian aligner."""
    own = BayesConfig.passes
    patch.setattr("regard.analysis.coverage.model._MIN_EXAMPLES", examples)
    patch.setattr(BayesConfig, "passes", lambda self, pairs: own(BayesConfig(effort=EFFORT), pairs))
