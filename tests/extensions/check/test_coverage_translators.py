"""The detector of coverage errors that uses a translator: contrastive conditioning."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pytest

import regard
from regard.api.loading import load_translator
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.extensions.check.base import DETECTORS, ContrastiveConfig, DetectionInput, build_detector
from regard.extensions.check.contrastive import score_spans
from regard.extensions.check.text import SideText, WordPair, split_pairs
from regard.extensions.phrasebook.corpus import generate
from regard.generation.base import BaseTranslator, Capability, Description, FileTranslator
from regard.generation.config import GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import Line
from regard.generation.translation import Translation

LEXICON = {"ein": "a", "großer": "big", "Hund": "dog", "schläft": "sleeps", "heute": "today", "dort": "there"}


@dataclass(frozen=True)
class LexiconTranslator(BaseTranslator):
    """A translator with exact probabilities.

    Each target word has the probability 1/2 if the source contains its translation, otherwise 1/10. Each
    source word whose translation is missing gives a factor of 1/5.
    """

    lexicon: dict[str, str]
    supports: frozenset[Capability] = frozenset({"score"})
    text: TextProcessor = FileTranslator([]).text
    search: GenerationConfig = field(default_factory=GenerationConfig)
    name: str = "the lexicon"
    seen: list[tuple[str, str]] = field(default_factory=list)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.supports

    def describe(self) -> Description:
        return Description("lexicon")

    def translate_block(self, lines: list[Line]) -> list[Translation]:
        raise NotImplementedError

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Translation]:
        for number, (source, target) in enumerate(pairs, 1):
            self.seen.append((source, target))
            words, others = source.split(), target.split()
            wanted = {self.lexicon.get(word) for word in words}
            log_p = sum(math.log(0.5 if word in wanted else 0.1) for word in others)
            log_p += sum(math.log(0.2) for word in words if self.lexicon.get(word) not in others)
            scored = Translation(source, self.text, number=number, source_tokens=tuple(words))
            yield scored.with_hypothesis(target, others, Hypothesis((), log_p, log_p, (), ()))


LEXICAL = LexiconTranslator(LEXICON)
EXACT = ContrastiveConfig(word_penalty=0.0)
BACKWARD = LexiconTranslator({target: source for source, target in LEXICON.items()})


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_contrastive_scores_have_their_exact_values() -> None:
    (pair,) = split_pairs(["ein großer Hund schläft"], ["a dog sleeps"])
    inputs = DetectionInput(translator=LEXICAL, contrastive=EXACT)
    (found,) = build_detector("contrastive", inputs).detect([pair])
    # Without `großer` the factor 1/5 disappears; without another word, its translation has 1/10 instead of
    # 1/2. The translation has three words and an end. The last two words are left out together only.
    gain = math.log(5) / 4
    assert found.sentence == {"omission": pytest.approx(sigmoid(gain))}
    assert found.words["omission"] == pytest.approx([sigmoid(n * gain) for n in (-1, 1, -2, -2)])


def test_neighbors_of_an_omitted_span_are_not_marked() -> None:
    (pair,) = split_pairs(["ein Hund schläft heute dort"], ["a dog sleeps"])
    every = dataclasses.replace(EXACT, candidates=100)
    (found,) = score_spans(LEXICAL, [pair], every, evidence=[np.zeros(5)])
    # (3, 5) is the omitted span; (2, 5) has a gain, too, but less than the span within it.
    assert found.gains[3, 5] == pytest.approx(2 * math.log(5))
    assert found.gains[2, 5] == pytest.approx(math.log(5))
    assert found.word_gains() == pytest.approx(math.log(5) * np.array([-1, -1, -1, 2, 2]))


def test_additions_are_found_in_the_other_direction() -> None:
    (pair,) = split_pairs(["ein Hund schläft"], ["a big dog sleeps"])
    inputs = DetectionInput(translator=LEXICAL, reverse_translator=BACKWARD, contrastive=EXACT)
    (found,) = build_detector("contrastive", inputs).detect([pair])
    assert found.words["addition"].argmax() == 1
    assert found.sentence["addition"] == pytest.approx(sigmoid(math.log(5) / 4))
    assert found.sentence["omission"] < 0.5 and found.words["omission"].shape == (3,)


def test_text_between_punctuation_marks_is_left_out_as_a_whole() -> None:
    (pair,) = split_pairs(["ein Hund, der dort so lange schläft, wacht"], ["a dog wakes"])
    (found,) = score_spans(LEXICAL, [pair], ContrastiveConfig(max_span=1))
    # Each clause is left out with one of the marks around it.
    assert set(found.clauses()) <= set(found.gains)
    assert [found.text.without(*span) for span in found.clauses()] == [
        "der dort so lange schläft, wacht",
        "ein Hund, wacht",
        "ein Hund, der dort so lange schläft",
    ]


def test_equal_inputs_are_scored_once() -> None:
    translator = LexiconTranslator(LEXICON)
    pairs = split_pairs(["ein Hund schläft"] * 3, ["a dog"] * 3)
    first, *others = score_spans(translator, pairs, ContrastiveConfig())
    assert len(set(translator.seen)) == len(translator.seen) > 0
    assert all(one.gains == first.gains for one in others)


def test_single_words_and_longer_spans_follow_the_pairs_with_the_highest_gains() -> None:
    (pair,) = split_pairs(["ein Hund schläft heute dort da heute"], ["a dog sleeps"])
    few, all_spans = (
        score_spans(LEXICAL, [pair], ContrastiveConfig(4, candidates))[0] for candidates in (0.2, 100)
    )
    # The last pair contains the word that is left over. The last three words have no translation.
    assert list(few.gains) == [(0, 2), (2, 4), (4, 6), (5, 7), (4, 5), (5, 6), (4, 7)]
    assert len(all_spans.gains) == 4 + 7 + 5 + 4
    (single,) = score_spans(LEXICAL, [pair], ContrastiveConfig(max_span=1))
    assert list(single.gains) == [(i, i + 1) for i in range(7)]
    # Each pair of words with a translation loses 2 log 5, more than the limit of 3 nats.
    (good,) = split_pairs(["ein Hund schläft heute"], ["a dog sleeps today"])
    assert list(score_spans(LEXICAL, [good], ContrastiveConfig())[0].gains) == [(0, 2), (2, 4)]
    (two,) = split_pairs(["ein Hund"], ["a"])
    assert list(score_spans(LEXICAL, [two], ContrastiveConfig())[0].gains) == [(0, 1), (1, 2)]


def test_gain_of_a_single_word_is_lowered_by_the_penalty() -> None:
    (pair,) = split_pairs(["ein T-Shirt, der dort schläft"], ["a dog"])
    (exact,), (lowered,) = (
        score_spans(LEXICAL, [pair], ContrastiveConfig(word_penalty=one)) for one in (0.0, 1.5)
    )
    assert list(exact.gains) == list(lowered.gains)
    # The three parts of `T-Shirt` are one word. The text between two marks is not, even if it is short.
    words = set(exact.text.units)
    assert (1, 4) in words
    for span, gain in exact.gains.items():
        assert lowered.gains[span] == pytest.approx(gain - 1.5 * (span in words))


def test_given_evidence_selects_the_spans_with_the_highest_sums() -> None:
    (pair,) = split_pairs(["ein großer Hund schläft"], ["a dog sleeps"])
    evidence = [np.array([0.2, 0.9, 0.0, 0.1])]
    (found,) = score_spans(LEXICAL, [pair], ContrastiveConfig(2, 0.5, word_penalty=0.0), evidence)
    # Above the mean of 0.3: 0.6 of one word, 0.5 of both.
    assert list(found.gains) == [(1, 2), (0, 2)]
    # A word that is not left out has no gain, nor has one whose span gains less than another word of it.
    assert np.isfinite(found.word_gains()).tolist() == [False, True, False, False]


def test_empty_sides_and_single_words_have_defined_scores() -> None:
    both = DetectionInput(translator=LEXICAL, reverse_translator=BACKWARD)
    pairs = split_pairs(["ein Hund", "", "", "Hund", "..."], ["", "a dog", "", "dog", "a dog"])
    empty, nothing, neither, word, marks = build_detector("contrastive", both).detect(pairs)
    assert empty.sentence == {"omission": 1.0, "addition": 0.0}
    assert empty.words["omission"].tolist() == [1.0, 1.0] and empty.words["addition"].shape == (0,)
    assert nothing.sentence == {"omission": 0.0, "addition": 1.0}
    assert neither.sentence == {"omission": 0.0, "addition": 0.0}
    assert word.sentence == {"omission": 0.0, "addition": 0.0} and word.words["omission"].tolist() == [0.0]
    assert marks.words["omission"].tolist() == [0.0, 0.0, 0.0]
    assert build_detector("contrastive", both).detect([]) == []


def test_missing_translators_and_capabilities_are_named() -> None:
    assert "contrastive" in DETECTORS.names()
    with pytest.raises(
        UsageError, match=r"contrastive' needs a translator .* \(translator=\).* or a translator .*"
    ):
        build_detector("contrastive", DetectionInput())
    finished = FileTranslator(["a dog"])
    with pytest.raises(
        UsageError, match="the detector 'contrastive': not supported by the file of translations"
    ):
        build_detector("contrastive", DetectionInput(translator=finished))
    with pytest.raises(UsageError, match="the detector 'contrastive': not supported"):
        build_detector("contrastive", DetectionInput(translator=LEXICAL, reverse_translator=finished))


@pytest.mark.parametrize(
    ("line", "units", "shortened"),
    [
        ("Ein Mann im T-Shirt läuft.", [(0, 1), (1, 2), (2, 3), (3, 6), (6, 7)], "Ein Mann im läuft."),
        ("don't go, Ann", [(0, 3), (3, 4), (5, 6)], "don't go,"),
        ("猫が好き。", [(0, 1), (1, 2), (2, 3), (3, 4)], "猫が好。"),
    ],
)
def test_units_of_plain_text_are_left_out(line, units, shortened) -> None:
    (pair,) = split_pairs([line], [""])
    text = SideText.of(pair, 0)
    assert text.units == units
    assert text.without(*text.units[3 if len(units) > 3 else 2]) == shortened
    # Without the line, its words are joined as in plain text.
    assert SideText.of(WordPair(pair.source, pair.target), 0) == text


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> BaseTranslator:
    """A tiny recurrent model of the phrasebook."""
    folder = tmp_path_factory.mktemp("contrastive")
    pairs = [(" ".join(one.source), " ".join(one.target)) for one in islice(generate(1), 200)]
    sizes = {"num_layers": 1, "hidden_size": 16}
    config = {
        "device": "cpu",
        "model": {"kind": "rnn", "embedding_size": 16, "encoder": sizes, "decoder": sizes},
        "training": {"max_steps": 10},
    }
    regard.train({**config, "data": {}}, folder / "model", pairs={"train": pairs, "valid": pairs[:10]})
    return load_translator([folder / "model"])


def test_scores_of_a_neural_model_do_not_depend_on_the_batch(trained) -> None:
    made = list(islice(generate(2), 12))
    pairs = split_pairs([" ".join(one.source) for one in made], [" ".join(one.target[1:]) for one in made])
    inputs = DetectionInput(translator=trained)
    detector = build_detector("contrastive", inputs)
    for pair, expected in zip(pairs, detector.detect(pairs), strict=True):
        (alone,) = detector.detect([pair])
        assert alone.words["omission"] == pytest.approx(expected.words["omission"], abs=1e-5)
        assert alone.sentence == pytest.approx(expected.sentence, abs=1e-5)


def test_log_probabilities_of_a_neural_model_equal_its_scores(trained) -> None:
    pairs = [("der Hund schläft .", "the dog sleeps ."), ("", "a"), ("die Katze", "the cat sleeps")]
    expected = [BaseTranslator.log_probabilities(trained, pairs), trained.log_probabilities(pairs)]
    assert [*expected[1]] == pytest.approx([*expected[0]], abs=1e-4, nan_ok=True)


def test_a_pair_that_cannot_be_scored_has_no_finding_and_a_warning(trained, caplog) -> None:
    limited = dataclasses.replace(trained, search=dataclasses.replace(trained.search, max_source_length=3))
    pairs = split_pairs(["der Hund schläft heute"], ["the dog"])
    (found,) = build_detector(
        "contrastive", DetectionInput(translator=limited, contrastive=ContrastiveConfig(candidates=1.0))
    ).detect(pairs)
    assert found.sentence == {"omission": 0.0} and not found.words["omission"].any()
    assert "cannot be scored, so that nothing is found in it: der Hund schläft heute" in caplog.text
