"""Phrase-based translation: Kneser-Ney language model, phrase table, stack decoder and tuning.

Reading order: `trie` (n-grams as ids), `language_model`, `kneser_ney`, `arpa`; `extraction`, `phrase_table`;
`features`, `translation_options`, `search_kernels`, `decoder`; `model`, `mert`, `tuning`, `training`.
"""

__all__: list[str] = []
