"""Statistical translation: IBM Models 3 and 4, Kneser-Ney language model, phrase table, decoder and tuning.

Reading order: `fertility_models` (word alignment); `trie` (n-grams as ids), `language_model`, `kneser_ney`;
`extraction`, `phrase_table`; `translation_options`, `search_kernels`, `decoder`; `model`, `tuning`,
`training`.
"""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Alignment and statistical models": ["regard.extensions.smt.command:lm"]},
    parts={
        "aligner": ["regard.extensions.smt.fertility_models"],
        "model": ["regard.extensions.smt.training"],
    },
)
