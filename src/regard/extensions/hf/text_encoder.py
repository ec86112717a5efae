"""Embeddings of the words and sentences of any language by a pre-trained multilingual encoder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.config.extensions import resolve_directory
from regard.errors import DataError
from regard.extensions.hf.files import convert_errors, load_hf_tokenizer, weight_files
from regard.extensions.hf.loading import load_encoder, max_positions
from regard.runs.device import set_num_threads
from regard.text.reading import Checksums, compute_checksums

_WORD_LAYER = 0.6
"""The layer of the words, as a share of all: in the middle, words resemble their translations most (SimAlign,
Jalili Sabet et al., 2020). The sentence is the mean of the last layer."""
_MAX_TOKENS = 512  # of a part of a sentence; longer ones are encoded in parts
_BATCH_SIZE = 16


class TextEncoder:
    """An encoder of `transformers`.

    Attributes:
        directory: Its directory.
        checksums: The checksums of its weights, which identify it.
    """

    def __init__(self, directory: Path | str, num_threads: int = 0) -> None:
        """Load the encoder and its tokenizer.

        Args:
            directory: A directory of Hugging Face, or a name on the Hub; of a sequence-to-sequence model, its
                encoder is used.
            num_threads: Number of CPU threads; 0 uses all processors.

        Raises:
            CheckpointError: if a file of the model is missing or broken.
            DataError: if the tokenizer cannot be loaded, or has no pad token or is not a fast one.
            UsageError: if `transformers` is not installed.
        """
        self.directory = resolve_directory(directory)
        set_num_threads(num_threads or None)
        self._model = load_encoder(self.directory, weights=True).eval()
        self._tokenizer: Any = load_hf_tokenizer(self.directory, str(directory))
        if not self._tokenizer.is_fast or self._tokenizer.pad_token is None:
            raise DataError(f"{directory}: needs a tokenizer of the library `tokenizers` with a pad token")
        self._max_tokens = min(max_positions(self._model) or _MAX_TOKENS, _MAX_TOKENS)
        names = [path.name for path in weight_files(self.directory)]
        self.checksums: Checksums = compute_checksums(self.directory, names)

    def embed(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "P D"]]:
        """Return the unit vectors of all words, one sentence after the other, and of the sentences.

        A word is the mean of its tokens. A word without tokens has the vector 0.
        """
        starts = np.cumsum([0, *map(len, sentences)])
        size = self._model.config.hidden_size
        words, texts = np.zeros((starts[-1], size), np.float32), np.zeros((len(sentences), size), np.float32)
        if not len(words):
            return words, texts
        with convert_errors(DataError, f"{self.directory}: the tokenizer cannot split the text"):
            encoded = self._tokenizer(
                [list(sentence) for sentence in sentences],
                is_split_into_words=True,
                truncation=True,
                max_length=self._max_tokens,
                return_overflowing_tokens=True,
            )
        ids, rows = encoded["input_ids"], encoded["overflow_to_sample_mapping"]
        order = sorted(range(len(ids)), key=lambda part: len(ids[part]))
        for start in range(0, len(order), _BATCH_SIZE):
            parts = order[start : start + _BATCH_SIZE]
            inputs = {"input_ids": [ids[part] for part in parts]}
            batch = self._tokenizer.pad(inputs, padding_side="right", return_tensors="pt")
            with torch.inference_mode():
                layers = self._model(**batch, output_hidden_states=True).hidden_states
            middle = layers[round(_WORD_LAYER * (len(layers) - 1))].numpy()
            for number, part in enumerate(parts):
                texts[rows[part]] += layers[-1][number, : len(ids[part])].sum(dim=0).numpy()
                for token, word in enumerate(encoded.word_ids(part)):
                    if word is not None:
                        words[starts[rows[part]] + word] += middle[number, token]
        return _unit(words), _unit(texts)


def _unit(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Return the vectors with length 1; the sum of vectors has the direction of their mean."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
