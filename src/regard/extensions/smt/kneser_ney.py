"""Interpolated modified Kneser-Ney smoothing, Chen & Goodman (1998), Eq. 24 to 26, as implemented in KenLM.

    p(w | h) = max(a(h w) - D(a(h w)), 0) / a(h .) + gamma(h) p(w | h')
    gamma(h) = (D1 N1(h .) + D2 N2(h .) + D3 N3+(h .)) / a(h .)
    Dj       = j - (j + 1) Y t_{j+1} / t_j,    Y = t1 / (t1 + 2 t2)

The adjusted count a is the count of an n-gram if it has the highest order or starts with `<s>`, else the
number of distinct words that precede it (its continuation count). Nj(h .) is the number of words w with
a(h w) = j, t_j is the number of n-grams of the order with a = j, and h' is h without its first word. Unigrams
are interpolated with the uniform distribution over all words including `</s>` and `<unk>` but not `<s>`. The
probability of `<unk>` consists of this share alone.
"""

import logging
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from regard.errors import DataError
from regard.extensions.smt.language_model import BEGIN, END, SPECIAL_WORDS, UNKNOWN_WORD, NgramLanguageModel
from regard.extensions.smt.trie import Trie, TrieBuilder

_log = logging.getLogger(__name__)

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""The discounts if they cannot be computed from the counts of counts, as in small or artificial texts."""


def estimate_language_model(
    sentences: Iterable[Sequence[str]], order: int, name: str = "the text"
) -> NgramLanguageModel:
    """Estimate a language model from sentences.

    Args:
        sentences: The words of each sentence; the words `<s>`, `</s>`, `<unk>` and `<UNK>` count as
            unknown.
        order: The maximum length of an n-gram.
        name: The name of the text in messages.

    Raises:
        DataError: if the text contains no word, or no n-gram of that order.
    """
    numbers = defaultdict(count(len(SPECIAL_WORDS)).__next__, {w: i for i, w in enumerate(SPECIAL_WORDS)})
    # `<UNK>` is another spelling of `<unk>`, as in KenLM, Heafield (2011).
    numbers["<UNK>"] = UNKNOWN_WORD
    flat, number = array("i"), numbers.__getitem__
    for sentence in sentences:
        flat.append(BEGIN)
        flat.extend(map(number, sentence))
        flat.append(-1)
    tokens = np.frombuffer(flat, dtype=np.int32).copy() if flat else np.empty(0, dtype=np.int32)
    # Sentence boundaries are recognized by position. Words with the same spelling become unknown words.
    starts = np.concatenate([[True], tokens[:-1] == -1])[: len(tokens)]
    tokens[(tokens == END) | ((tokens == BEGIN) & ~starts)] = UNKNOWN_WORD
    tokens[tokens == -1] = END
    del numbers["<UNK>"]
    if not ((tokens != BEGIN) & (tokens != END)).any():
        raise DataError(f"{name} contains no word, so that no language model can be estimated")
    return _smooth(*_count_ngrams(tokens, len(numbers), order, name), tuple(numbers))


def _count_ngrams(
    tokens: np.ndarray, vocab_size: int, order: int, name: str
) -> tuple[Trie, np.ndarray, np.ndarray]:
    """Count the n-grams within sentences, each of which starts with `BEGIN` and ends with `END`.

    Returns:
        The n-grams; int64 [nodes], the adjusted count a of each, 0 for `<s>` and words that do not occur;
        int64 [nodes], the node of each n-gram without its first word.
    """
    ends = np.flatnonzero(tokens == END)
    # The number of words from each position to the end of its sentence, so that n-grams do not cross it.
    left = np.repeat(ends, np.diff(np.concatenate([[-1], ends]))) - np.arange(len(tokens))
    nodes = 1 + tokens.astype(np.int64)  # the n-gram that starts at each position
    builder = TrieBuilder(vocab_size)
    counts = [np.array([0]), np.bincount(tokens, minlength=vocab_size)]
    suffixes = [np.array([0]), np.zeros(vocab_size, dtype=np.int64)]
    opens = [np.array([False]), np.arange(vocab_size) == BEGIN]  # whether each n-gram starts with <s>
    for length in range(2, order + 1):
        places = np.flatnonzero(left >= length - 1)
        if not len(places):
            raise DataError(
                f"{name}: no sentence has {length} words, including <s> and </s>, as the order {order} "
                f"requires; use an order of at most {length - 1}"
            )
        grown = builder.grow(nodes[places], tokens[places + length - 1])
        above, start, end = builder.levels[-3:]
        members, size = grown - start, end - start
        counts.append(np.bincount(members, minlength=size))
        starts_text, suffix = np.empty(size, dtype=bool), np.empty(size, dtype=np.int64)
        starts_text[members] = opens[-1][nodes[places] - above]
        opens.append(starts_text)
        suffix[members] = nodes[places + 1]
        suffixes.append(suffix)
        # From here on, `nodes` contains the longer n-grams; positions near the end of a sentence keep theirs.
        nodes[places] = grown
    trie = builder.build()
    # An n-gram of order n + 1 adds one distinct preceding word to the n-gram that is its suffix.
    for length in range(1, order):
        start, end = trie.levels[length : length + 2]
        distinct = np.bincount(suffixes[length + 1] - start, minlength=end - start)
        counts[length] = np.where(opens[length], counts[length], distinct)
    counts[1][BEGIN] = 0  # <s> is never predicted
    return trie, np.concatenate(counts).astype(np.int64), np.concatenate(suffixes)


def compute_discounts(adjusted: np.ndarray, name: str) -> tuple[float, float, float]:
    """Return D1, D2 and D3+, or `FALLBACK_DISCOUNTS` with a warning if the counts do not determine them."""
    t = [int((adjusted == j).sum()) for j in range(5)]  # counts of counts; t[0] is not used
    if all(t[1:4]):
        y = t[1] / (t[1] + 2 * t[2])
        discounts = tuple(j - (j + 1) * y * t[j + 1] / t[j] for j in (1, 2, 3))
        if all(0 <= amount <= j for j, amount in enumerate(discounts, 1)):
            return discounts[0], discounts[1], discounts[2]
    _log.warning(
        "the Kneser-Ney discounts of the %s cannot be computed (%s of count 1, 2, 3, 4: small or artificial "
        "text); using %s, %s and %s",
        name,
        ", ".join(map(str, t[1:])),
        *FALLBACK_DISCOUNTS,
    )
    return FALLBACK_DISCOUNTS


def _smooth(
    trie: Trie, adjusted: np.ndarray, suffixes: np.ndarray, vocabulary: tuple[str, ...]
) -> NgramLanguageModel:
    """Compute the smoothed language model from the results of `_count_ngrams`."""
    parents = trie.parents()
    probs = np.zeros(len(trie))
    backoffs = np.ones(len(trie))
    probs[0] = 1 / (len(vocabulary) - 1)  # the uniform distribution without <s>, which is never predicted
    for order in range(1, trie.order + 1):
        nodes = trie.nodes(order)
        above = trie.nodes(order - 1)
        counted, parent = adjusted[nodes], parents[nodes] - above.start
        size = above.stop - above.start
        discount = np.array([0.0, *compute_discounts(counted, f"{order}-grams")])[np.minimum(counted, 3)]
        total = np.bincount(parent, counted, minlength=size)
        reserved = np.bincount(parent, discount, minlength=size)
        # A context that was never counted leaves all probability to the lower order.
        gamma = np.divide(reserved, total, out=np.ones(size), where=total > 0)
        lower = probs[suffixes[nodes]]
        share = np.divide(counted - discount, total[parent], out=np.zeros(len(parent)), where=counted > 0)
        probs[nodes] = share + gamma[parent] * lower
        backoffs[above] = gamma
    probs[1 + BEGIN] = 1.0  # arbitrary, as <s> is never predicted, but its logarithm must be finite
    # The model is stored in float32, in which the logarithm of a smaller number would be infinite.
    floor = np.finfo(np.float32).tiny
    log_probs = np.minimum(np.log10(np.maximum(probs, floor)), 0)
    log_backoffs = np.log10(np.maximum(backoffs, floor))
    log_backoffs[0] = 0.0  # the empty context has no backoff
    logarithms = log_probs.astype(np.float32), log_backoffs.astype(np.float32)
    return NgramLanguageModel(vocabulary, trie, *logarithms, suffixes)
