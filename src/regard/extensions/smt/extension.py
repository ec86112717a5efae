"""The parts and commands of statistical machine translation."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Alignment and statistical models": ["regard.extensions.smt.command:lm"]},
    parts={
        "aligner": ["regard.extensions.smt.fertility_models"],
        "model": ["regard.extensions.smt.training"],
    },
)
