"""Terms that a translation must hold: lexically constrained search with dynamic beam allocation.

Post & Vilar (2018), after Hokamp & Liu (2017). The continuations of a row are its likeliest tokens and the
next token of every term it lacks. Those of a sentence lie in banks, by how many tokens of its terms they
hold, and the beam is shared out evenly: first to the best of each bank, fullest bank first, then to the
second best of each... A hypothesis ends only when it holds all terms. So the fullest bank grows by a token a
step, and every term is said, unless something forbids it: where no hypothesis can go on or end, those that
hold most of the terms end without the rest.

A term is held where its tokens stand side by side between two word boundaries: `Bank` not by `Bankett`. In
scripts that put no spaces between words, every place between two letters is one. Terms may overlap, and one
that is demanded twice need be said once.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.text import Side
from regard.data.tokenizers.words import SPACE
from regard.data.vocabulary import PAD
from regard.layers.rows import Rows
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Boundaries", "Progress", "Terms", "holds"]

_NEVER = -float("inf")
_UNSPACED = frozenset("BOPOMOFO CJK HIRAGANA IDEOGRAPHIC KATAKANA KHMER LAO MYANMAR THAI YI".split())
"""Scripts written without spaces between words: the first words of their characters' names in Unicode."""


@dataclass(frozen=True)
class Boundaries:
    """Between which tokens a word ends and another begins.

    Attributes:
        glued: Tokens that join whatever follows: `low@@`.
        ends: Other tokens that a word may end with, whatever follows: a space, a full stop.
        opens: Tokens that open a word, unless what stands before is glued.
        space: The token of a space, where it is one; else `PAD`.
    """

    glued: Bool[Tensor, "V"]
    ends: Bool[Tensor, "V"]
    opens: Bool[Tensor, "V"]
    space: int = PAD

    @classmethod
    def of(cls, side: Side) -> "Boundaries":
        """Those of a vocabulary, as its tokenizer joins tokens.

        Args:
            side: The target side.
        """
        tokens, words = side.vocabulary.tokens, side.tokenizer.word_ids
        glued = torch.tensor([len(set(words([token, SPACE]))) == 1 for token in tokens])
        joins = torch.tensor([len(set(words(["x", token]))) == 1 for token in tokens])
        ends = torch.tensor([not _joins(token[-1]) for token in tokens])
        opens = torch.tensor([not _joins(token[0]) for token in tokens])
        alone = SPACE in side.vocabulary and bool(joins.any())
        space = side.vocabulary.ids([SPACE])[0] if alone else PAD
        return cls(glued, ends & ~glued, opens | ~joins, space)

    def to(self, device: torch.device) -> "Boundaries":
        """The same on another device."""
        return Boundaries(self.glued.to(device), self.ends.to(device), self.opens.to(device), self.space)

    def between(self, before: Int[Tensor, "*#N"], after: Int[Tensor, "*#N"]) -> Bool[Tensor, "*#N"]:
        """Whether there is one between two tokens."""
        return ~self.glued[before] & (self.ends[before] | self.opens[after])


def _joins(character: str) -> bool:
    """Whether it makes a word with letters beside it: letters, digits and marks of scripts with spaces."""
    script = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return unicodedata.category(character)[0] in "LMN" and script not in _UNSPACED


def holds(tokens: Sequence[int], term: Sequence[int], boundaries: Boundaries) -> bool:
    """Whether a finished translation holds a term.

    Args:
        tokens: The translation.
        term: At least one token.
        boundaries: Those of the vocabulary.
    """
    if len(tokens) < len(term):
        return False
    said = torch.tensor(tokens, device=boundaries.glued.device)
    edges = torch.ones(len(said) + 1, dtype=torch.bool, device=said.device)
    edges[1:-1] = boundaries.between(said[:-1], said[1:])
    size = len(term)
    found = (said.unfold(0, size, 1) == said.new_tensor(term)).all(dim=1)
    return bool((found & edges[: len(said) - size + 1] & edges[size:]).any())


class Terms:
    """The terms of the sentences of a batch.

    Args:
        terms: For each sentence the tokens of its terms, each at least one; one sentence has a term.
        boundaries: Those of the target vocabulary, on the batch's device.

    Attributes:
        room: How many tokens say the terms of each sentence, spaces where they are tokens.
        lengths: The tokens of each term [B, K]; 0 where there is none.
        tokens: These tokens [B, K, L + 1], padded.
        alphabet: The tokens that the terms of a sentence are made of [B, M], padded with -1.
        moves: From how many tokens of a term a hypothesis ends in, to how many after each token of the
            alphabet, and (last) after another one [B, K, L + 1, M + 1].
    """

    def __init__(self, terms: Sequence[Sequence[Sequence[int]]], boundaries: Boundaries) -> None:
        """Work out how every token moves every term."""
        self.boundaries = boundaries
        spaced = int(boundaries.space != PAD)
        self.room = [sum(len(term) + spaced for term in own) for own in terms]
        alphabets = [sorted({token for term in own for token in term}) for own in terms]
        shape = (len(terms), max(map(len, terms)), max(len(term) for own in terms for term in own) + 1)
        letters = max(map(len, alphabets))
        lengths = torch.zeros(shape[:2], dtype=torch.long)
        tokens = torch.full(shape, PAD)
        alphabet = torch.full((len(terms), letters), -1)
        moves = torch.zeros((*shape, letters + 1), dtype=torch.long)
        for sentence, own in enumerate(terms):
            alphabet[sentence, : len(alphabets[sentence])] = torch.tensor(alphabets[sentence])
            for place, term in enumerate(own):
                lengths[sentence, place] = len(term)
                tokens[sentence, place, : len(term)] = torch.tensor(term)
                found = torch.tensor(_moves(term, alphabets[sentence], boundaries))
                moves[sentence, place, : len(term) + 1, : found.shape[1]] = found
        device = boundaries.glued.device
        self.lengths, self.tokens = lengths.to(device), tokens.to(device)
        self.alphabet, self.moves = alphabet.to(device), moves.to(device)

    def start(self) -> "Progress":
        """How far empty hypotheses have come, one for each sentence."""
        nothing = torch.zeros_like(self.lengths)
        return Progress(self, self.lengths == 0, nothing, nothing.sum(dim=1))


@dataclass(frozen=True)
class Progress(Rows):
    """How far hypotheses have come with their terms.

    Attributes:
        terms: The terms.
        held: Which of them each holds, whatever comes next.
        said: How many tokens of each it ends in; all of them: held, unless the next token joins the last.
        bank: How many tokens of its terms it holds: of those it has said whole, and of the one it has said
            most of, since what it ends in may begin several.
    """

    terms: Terms
    held: Bool[Tensor, "R K"]
    said: Int[Tensor, "R K"]
    bank: Int[Tensor, "R"]

    def wanted(self, last: Int[Tensor, "R"], sentences: Int[Tensor, "R"]) -> Int[Tensor, "R K"]:
        """The next token of each term that a row lacks, `PAD` where there is none.

        Args:
            last: The last token of each row.
            sentences: Its sentence.
        """
        boundaries = self.terms.boundaries
        found = self.terms.tokens[sentences].gather(2, self.said.unsqueeze(2)).squeeze(2)
        inside = (self.said == 0) & ~boundaries.between(last.unsqueeze(1), found)
        found = found.masked_fill(inside, boundaries.space)
        return found.masked_fill(self.held | (self.said == self.terms.lengths[sentences]), PAD)

    def after(
        self, last: Int[Tensor, "R"], tokens: Int[Tensor, "R C"], sentences: Int[Tensor, "R"]
    ) -> "Progress":
        """How far every continuation of every row has come: C rows for each.

        Args:
            last: The last token of each row.
            tokens: What it may go on with.
            sentences: Its sentence.
        """
        terms = self.terms
        boundary = terms.boundaries.between(last.unsqueeze(1), tokens).unsqueeze(2)  # (R, C, 1)
        same = tokens.unsqueeze(2) == terms.alphabet[sentences].unsqueeze(1)
        letter = torch.where(same.any(dim=2), same.to(torch.int8).argmax(dim=2), same.shape[2])
        lengths = terms.lengths[sentences].unsqueeze(1)
        places = torch.arange(self.said.shape[1], device=last.device)
        moves = terms.moves[sentences.unsqueeze(1), places, self.said]  # (R, K, M + 1)
        said = moves.gather(2, letter.unsqueeze(1).expand(-1, len(places), -1)).transpose(1, 2)
        said = said.masked_fill((said == 1) & ~boundary, 0)
        held = self.held.unsqueeze(1) | ((self.said.unsqueeze(1) == lengths) & boundary)
        full = held | (said == lengths)
        bank = (full * lengths).sum(dim=2) + said.masked_fill(full, 0).amax(dim=2)
        return Progress(terms, held.flatten(0, 1), said.flatten(0, 1), bank.flatten())

    def hold_back(
        self, totals: Float[Tensor, "n c"], choices: int, empty: Bool[Tensor, "n"]
    ) -> Float[Tensor, "n c"]:
        """The same, minus infinity where a hypothesis would end without its terms.

        Args:
            totals: The log-probabilities of the continuations of each sentence, row by row.
            choices: How many continuations a row has, the first of them the end symbol.
            empty: Sentences for which there is no finished hypothesis yet.
        """
        ends = totals[:, ::choices]
        complete = self.held.all(dim=1).view(totals.shape)[:, ::choices]
        kept = totals.clone()
        kept[:, ::choices] = ends.masked_fill(~complete, _NEVER)
        stuck = empty & ~(kept > _NEVER).any(dim=1)
        bank = self.bank.view(totals.shape)[:, ::choices].masked_fill(~(ends > _NEVER), -1)
        last = stuck.unsqueeze(1) & (bank == bank.amax(dim=1, keepdim=True))
        kept[:, ::choices] = ends.masked_fill(~(complete | last), _NEVER)
        return kept

    def allocate(
        self, totals: Float[Tensor, "n c"], order: Int[Tensor, "n c"]
    ) -> tuple[Float[Tensor, "n c"], Int[Tensor, "n c"]]:
        """The continuations of each sentence in the order in which they get a place in the beam.

        Args:
            totals: Their log-probabilities, best first.
            order: Which continuation of the sentence each is.
        """
        bank = self.bank.view(totals.shape).gather(1, order)
        banks = int(bank.max()) + 1
        before = torch.nn.functional.one_hot(bank, banks).cumsum(dim=1)
        rank = before.gather(2, bank.unsqueeze(2)).squeeze(2)  # in its bank, from 1
        place = (rank * banks - bank).masked_fill(~(totals > _NEVER), totals.shape[1] * (banks + 1))
        found = place.argsort(dim=1, stable=True)
        return totals.gather(1, found), order.gather(1, found)


def _moves(term: Sequence[int], alphabet: Sequence[int], boundaries: Boundaries) -> list[list[int]]:
    """How many tokens of a term a hypothesis ends in, after so many and each token.

    Whether a word begins at the newest token is not known here: where it is the term's first.
    """
    whole = torch.tensor(term, device=boundaries.glued.device)
    starts = boundaries.between(whole[:-1], whole[1:]).tolist()  # of words, at the second token, the third...

    def move(said: int, token: int) -> int:
        now = [*term[:said], token]
        for size in range(min(len(now), len(term)), 0, -1):
            begin = len(now) - size
            fits = now[begin:] == list(term[:size])
            if fits and (begin in (0, said) or starts[begin - 1]):
                return size
        return 0

    return [[move(said, token) for token in alphabet] for said in range(len(term) + 1)]
