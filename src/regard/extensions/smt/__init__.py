"""Statistical translation: Kneser-Ney language model, phrase table, decoder and tuning.

Reading order: `trie` (n-grams as ids), `language_model`, `kneser_ney`; `extraction`, `phrase_table`;
`translation_options`, `search_kernels`, `decoder`; `model`, `tuning`, `training`.
"""

from regard.config.extensions import Extension

EXTENSION = Extension(
    commands={"Alignment and statistical models": ["regard.extensions.smt.command:lm"]},
    parts={"model": ["regard.extensions.smt.training"]},
)
