"""Phrase-based translation: Kneser-Ney language model, phrase table, stack decoder and tuning.

Reading order: `trie` (n-grams as ids), `language_model`, `kneser_ney`, `arpa`; `extraction`, `lexical`,
`phrase_table`, `moses`; `features`, `translation_options`, `stack_search`, `nbest`, `decoder`;
`bleu`, `mert`, `tuning`; `config`, `model`, `training`.
"""

__all__: list[str] = []
