"""Tests of `score` with results of `translate`, which get the probability with which they were generated."""

from pathlib import Path

import pytest

import regard
from regard.config import to_dict
from regard.data.text import TextSide
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import STEP, ActionsConfig, ActionsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from saved_models import LSTM, save_model

# With this seed, models generate translations whose text is tokenized differently when it is read again.
SEED = 20
LINES = ["a b c", "d a", "c c c c", "b", "a b d c a b"]
BPE = BytePairTokenizer(BytePairConfig(tokenized=True, joint=False), b"#version: 0.2\na b</w>\n")
KINDS = {
    # The tokens "a@@ b" have the text "ab", which is encoded as the single token "ab".
    "bpe": (BPE, ("a@@", "b", "ab"), "constrained", 2.0),
    # Step actions do not occur in the text.
    "actions": (ActionsTokenizer(ActionsConfig()), (STEP, "a", "b"), "pointer", None),
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request, tmp_path_factory) -> Path:
    tokenizer, tokens, kind, fertility = KINDS[request.param]
    decoder = {"hidden_size": 8, "query": "previous", "input_feeding": "context"}
    return save_model(
        tmp_path_factory.mktemp(request.param),
        SEED,
        model={**LSTM, "decoder": decoder, "init_range": 1.0},
        attention={"kind": kind},
        fertility=fertility,
        source="a b c d",
        target=TextSide(tokenizer, Vocabulary((*SPECIAL_TOKENS, *tokens))),
        data={"target_tokenizer": to_dict(tokenizer.config)},
        generation={"min_length": 3},
    )


def test_python_results_are_scored_with_their_tokens(directory: Path) -> None:
    model = regard.load(directory, length_penalty=0.0)
    results = model.translate(LINES)
    again = model.score(LINES, results)
    assert [one.tokens for one in again] == [one.tokens for one in results]
    for one, other in zip(again, results, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.retokenized == (model.score(one.source, one.text).tokens != one.tokens)
    assert any(one.retokenized for one in again)
    single = model.score(LINES[0], results[0])
    assert single.log_probability == pytest.approx(again[0].log_probability, abs=1e-4)
    # For another source sentence, only the tokens of the translation are reused.
    other = model.score("d d", results[0])
    assert other.tokens == results[0].tokens and other.source_tokens[:2] == ("d", "d")
    mixed = model.score(LINES[:2], [results[0], results[1].text])
    assert mixed[0].tokens == results[0].tokens and not mixed[1].retokenized
