"""Lexically constrained beam search with dynamic beam allocation: terms that a translation must contain.

Post & Vilar (2018), after Hokamp & Liu (2017). The extensions of a row are its top-scoring tokens and the
next token of every term that it does not contain yet. The extensions of a sentence are divided into banks by
the number of tokens of its terms that they contain. The beam is allocated evenly: first to the best extension
of each bank, starting with the fullest bank, then to the second best of each bank, and so on. A hypothesis
ends only when it contains all terms. The fullest bank therefore grows by one token per time step, and all
terms are generated unless other constraints exclude them. If no hypothesis can continue or end, the
hypotheses with the largest number of term tokens end without the rest.

A term is contained in a translation if its tokens are adjacent and lie between two word boundaries: `Bank` is
not contained in `Bankett`. In scripts without spaces between words, there is a boundary between any two
letters. Terms may overlap. A term that is required twice needs to occur only once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from regard.data.text import TextSide
from regard.layers.batched_state import BatchedState
from regard.text.tokenizers.words import SPACE_MARK
from regard.text.vocabulary import PAD, UNK
from regard.text.words import joins_letters
from regard.types import Bool, Float, Int, Tensor

_NEG_INF = -float("inf")


@dataclass(frozen=True)
class WordBoundaries:
    """Word boundaries between tokens of a vocabulary."""

    joins_next: Bool[Tensor, "V"]  # tokens that join with the token after them, such as `low@@`
    ends_word: Bool[Tensor, "V"]  # others after which a word may always end, such as a space or a full stop
    starts_word: Bool[Tensor, "V"]  # tokens that begin a word, unless the token before joins with the next
    space: int = PAD  # id of the space token if spaces are tokens

    @classmethod
    def from_side(cls, side: TextSide) -> "WordBoundaries":
        """Return the word boundaries of the target vocabulary, according to its tokenizer."""
        # Test each token with the tokenizer: does it join with a following space or a preceding letter?
        tokens, words = side.vocabulary.tokens, side.tokenizer.word_ids
        joins_next = torch.tensor([len(set(words([token, SPACE_MARK]))) == 1 for token in tokens])
        joins_previous = torch.tensor([len(set(words(["x", token]))) == 1 for token in tokens])
        ends = torch.tensor([not joins_letters(token[-1]) for token in tokens])
        starts = torch.tensor([not joins_letters(token[0]) for token in tokens])
        # Spaces are tokens of their own only in character-level vocabularies.
        spaced = SPACE_MARK in side.vocabulary and bool(joins_previous.any())
        space = side.vocabulary.to_ids([SPACE_MARK])[0] if spaced else PAD
        return cls(joins_next, ends & ~joins_next, starts | ~joins_previous, space)

    def to(self, device: torch.device) -> "WordBoundaries":
        """Return a copy on another device."""
        return WordBoundaries(
            self.joins_next.to(device), self.ends_word.to(device), self.starts_word.to(device), self.space
        )

    def is_boundary(self, before: Int[Tensor, "*#N"], after: Int[Tensor, "*#N"]) -> Bool[Tensor, "*#N"]:
        """Return whether there is a word boundary between two tokens."""
        return ~self.joins_next[before] & (self.ends_word[before] | self.starts_word[after])


def contains_term(tokens: Sequence[int], term: Sequence[int], boundaries: WordBoundaries) -> bool:
    """Return whether the token ids of a finished translation contain those of a term."""
    if len(tokens) < len(term):
        return False
    ids = torch.tensor(tokens, device=boundaries.joins_next.device)
    # The beginning and the end of the translation are boundaries.
    edges = torch.ones(len(ids) + 1, dtype=torch.bool, device=ids.device)
    edges[1:-1] = boundaries.is_boundary(ids[:-1], ids[1:])
    size = len(term)
    matches = (ids.unfold(0, size, 1) == ids.new_tensor(term)).all(dim=1)
    return bool((matches & edges[: len(ids) - size + 1] & edges[size:]).any())


class TermConstraints:
    """Required terms of the sentences of a batch, with an automaton for each term.

    Args:
        terms: Token ids of each term of each sentence. At least one sentence has a term.
        boundaries: Word boundaries of the target vocabulary, on the batch's device.

    Attributes:
        num_tokens: Number of tokens needed for the terms of each sentence, including spaces if they are
            tokens.
        lengths: Number of tokens of each term [B, K]; 0 for unused entries.
        tokens: Token ids of the terms [B, K, L + 1], padded.
        alphabet: Distinct tokens of the terms of each sentence [B, M], padded with -1.
        transitions: Transitions [B, K, L + 1, M + 1]: the matched prefix length of a term after each token of
            the alphabet and (last) after any other token, given the matched prefix length before.
    """

    def __init__(self, terms: Sequence[Sequence[Sequence[int]]], boundaries: WordBoundaries) -> None:
        """Compute the transitions of every term."""
        self.boundaries = boundaries
        spaced = int(boundaries.space != PAD)
        self.num_tokens = [sum(len(term) + spaced for term in sentence_terms) for sentence_terms in terms]
        alphabets = [sorted({token for term in sentence_terms for token in term}) for sentence_terms in terms]
        shape = (
            len(terms),
            max(map(len, terms)),
            max(len(term) for sentence_terms in terms for term in sentence_terms) + 1,
        )
        alphabet_size = max(map(len, alphabets))
        lengths = torch.zeros(shape[:2], dtype=torch.long)
        tokens = torch.full(shape, PAD)
        alphabet = torch.full((len(terms), alphabet_size), -1)
        transitions = torch.zeros((*shape, alphabet_size + 1), dtype=torch.long)
        for sentence, sentence_terms in enumerate(terms):
            alphabet[sentence, : len(alphabets[sentence])] = torch.tensor(alphabets[sentence])
            for place, term in enumerate(sentence_terms):
                lengths[sentence, place] = len(term)
                tokens[sentence, place, : len(term)] = torch.tensor(term)
                table = torch.tensor(_transitions(term, alphabets[sentence], boundaries))
                transitions[sentence, place, : len(term) + 1, : table.shape[1]] = table
        device = boundaries.joins_next.device
        self.lengths, self.tokens = lengths.to(device), tokens.to(device)
        self.alphabet, self.transitions = alphabet.to(device), transitions.to(device)

    def initial_state(self) -> "TermState":
        """Return the state of empty hypotheses, one per sentence."""
        zeros = torch.zeros_like(self.lengths)
        return TermState(self, self.lengths == 0, zeros, zeros.sum(dim=1))


@dataclass(frozen=True)
class TermState(BatchedState):
    """Matching state of hypotheses with respect to their terms."""

    terms: TermConstraints
    completed: Bool[Tensor, "R K"]  # whether each term is contained, independently of the next token
    # Number of leading tokens of each term that the hypothesis ends in. If it is the whole term, the term is
    # contained unless the next token joins the last word.
    prefix_lengths: Int[Tensor, "R K"]
    # Number of term tokens in the hypothesis: those of the completed terms, plus those of the longest partial
    # match. Only one partial match counts, because the last tokens may begin several terms.
    bank: Int[Tensor, "R"]

    def next_tokens(self, last: Int[Tensor, "R"], sentences: Int[Tensor, "R"]) -> Int[Tensor, "R K"]:
        """Return the next token of each term that a row, by its last token, lacks; `PAD` for the others."""
        boundaries = self.terms.boundaries
        tokens = self.terms.tokens[sentences].gather(2, self.prefix_lengths.unsqueeze(2)).squeeze(2)
        # A term that cannot begin directly after the last token needs a space first.
        needs_space = (self.prefix_lengths == 0) & ~boundaries.is_boundary(last.unsqueeze(1), tokens)
        tokens = tokens.masked_fill(needs_space, boundaries.space)
        return tokens.masked_fill(
            self.completed | (self.prefix_lengths == self.terms.lengths[sentences]), PAD
        )

    def extend(
        self, last: Int[Tensor, "R"], tokens: Int[Tensor, "R C"], sentences: Int[Tensor, "R"]
    ) -> "TermState":
        """Return the state of all extensions of all rows: C rows per row, each by one of its tokens."""
        terms = self.terms
        boundary = terms.boundaries.is_boundary(last.unsqueeze(1), tokens).unsqueeze(2)  # (R, C, 1)
        # Map each token to its index in the sentence's alphabet, or to the last index if it is in no term.
        same = tokens.unsqueeze(2) == terms.alphabet[sentences].unsqueeze(1)
        index = torch.where(same.any(dim=2), same.to(torch.int8).argmax(dim=2), same.shape[2])
        lengths = terms.lengths[sentences].unsqueeze(1)
        places = torch.arange(self.prefix_lengths.shape[1], device=last.device)
        moves = terms.transitions[sentences.unsqueeze(1), places, self.prefix_lengths]  # (R, K, M + 1)
        prefix_lengths = moves.gather(2, index.unsqueeze(1).expand(-1, len(places), -1)).transpose(1, 2)
        # A term can only begin at the beginning of a word.
        prefix_lengths = prefix_lengths.masked_fill((prefix_lengths == 1) & ~boundary, 0)
        completed = self.completed.unsqueeze(1) | ((self.prefix_lengths.unsqueeze(1) == lengths) & boundary)
        full = completed | (prefix_lengths == lengths)
        bank = (full * lengths).sum(dim=2) + prefix_lengths.masked_fill(full, 0).amax(dim=2)
        return TermState(terms, completed.flatten(0, 1), prefix_lengths.flatten(0, 1), bank.flatten())

    def mask_incomplete(
        self, totals: Float[Tensor, "n c"], choices: int, empty: Bool[Tensor, "n"]
    ) -> Float[Tensor, "n c"]:
        """Return the log-probabilities, minus infinity for extensions that end without all terms.

        Each row has `choices` extensions, the first of which is the end symbol. `empty` marks sentences that
        do not have a finished hypothesis yet.
        """
        ends = totals[:, ::choices]
        complete = self.completed.all(dim=1).view(totals.shape)[:, ::choices]
        masked = totals.clone()
        masked[:, ::choices] = ends.masked_fill(~complete, _NEG_INF)
        # If no extension is possible, the rows with the largest bank may end without all terms.
        stuck = empty & ~(masked > _NEG_INF).any(dim=1)
        bank = self.bank.view(totals.shape)[:, ::choices].masked_fill(~(ends > _NEG_INF), -1)
        last = stuck.unsqueeze(1) & (bank == bank.amax(dim=1, keepdim=True))
        masked[:, ::choices] = ends.masked_fill(~(complete | last), _NEG_INF)
        return masked

    def allocate_beam(
        self, totals: Float[Tensor, "n c"], order: Int[Tensor, "n c"]
    ) -> tuple[Float[Tensor, "n c"], Int[Tensor, "n c"]]:
        """Return the extensions of each sentence, which are sorted best first, in the order of allocation."""
        bank = self.bank.view(totals.shape).gather(1, order)
        banks = int(bank.max()) + 1
        before = torch.nn.functional.one_hot(bank, banks).cumsum(dim=1)
        rank = before.gather(2, bank.unsqueeze(2)).squeeze(2)  # rank within its bank, from 1
        # Sort by rank within the bank, then by bank, fullest first; impossible extensions come last.
        place = (rank * banks - bank).masked_fill(~(totals > _NEG_INF), totals.shape[1] * (banks + 1))
        indices = place.argsort(dim=1, stable=True)
        return totals.gather(1, indices), order.gather(1, indices)


def _transitions(term: Sequence[int], alphabet: Sequence[int], boundaries: WordBoundaries) -> list[list[int]]:
    """Return the matched prefix length of a term after each token, for each matched prefix length before.

    Whether the newest token begins a word is not known here. `TermState.extend` corrects matches of the first
    token.
    """
    whole = torch.tensor(term, device=boundaries.joins_next.device)
    # Entry i states whether a word begins at token i + 1.
    starts = boundaries.is_boundary(whole[:-1], whole[1:]).tolist()

    def move(matched: int, token: int) -> int:
        tokens = [*term[:matched], token]
        for size in range(min(len(tokens), len(term)), 0, -1):
            begin = len(tokens) - size
            fits = tokens[begin:] == list(term[:size])
            if fits and (begin in (0, matched) or starts[begin - 1]):
                return size
        return 0

    return [[move(matched, token) for token in alphabet] for matched in range(len(term) + 1)]


@dataclass(frozen=True)
class RequiredTerms:
    """Required terms of a target language."""

    target: TextSide

    @cached_property
    def boundaries(self) -> WordBoundaries:
        """Return the word boundaries of the target vocabulary."""
        return WordBoundaries.from_side(self.target)

    def encode_feasible(self, terms: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return the token ids of the terms in the vocabulary that fit into a translation of `max_tokens`."""
        feasible: list[list[int]] = []
        for tokens in self._encode(terms).values():
            if 0 < len(tokens) <= max_tokens and UNK not in tokens:
                feasible.append(tokens)
                max_tokens -= len(tokens)
        return feasible

    def missing_terms(self, terms: Sequence[str], translations: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """Return messages about the terms that at least one of several translations does not contain."""
        missing: list[str] = []
        for term, tokens in self._encode(terms).items():
            if UNK in tokens:
                missing.append(f"{term!r}: it contains tokens outside the target vocabulary")
            elif not all(contains_term(translation, tokens, self.boundaries) for translation in translations):
                missing.append(repr(term))
        return tuple(missing)

    def contained_terms(self, terms: Sequence[str], translation: Sequence[int]) -> tuple[str, ...] | None:
        """Return the terms that a translation contains, or None if no possible term is missing."""
        written = {term: tokens for term, tokens in self._encode(terms).items() if UNK not in tokens}
        contained = [
            term for term, tokens in written.items() if contains_term(translation, tokens, self.boundaries)
        ]
        return None if len(contained) == len(written) else tuple(contained)

    def _encode(self, terms: Sequence[str]) -> dict[str, list[int]]:
        """Return the token ids of each term, which most often follows other words."""
        encoded: dict[str, list[int]] = {}
        for term in terms:
            inside = self.target.tokenizer.encode_inside(term)
            encoded[term] = (
                self.target.encode(term) if inside is None else self.target.vocabulary.to_ids(inside)
            )
        return encoded
