"""Tests of pointer attention: the position is the number of preceding steps, in training and search."""

import pytest
import torch

from generation.conftest import build_rnn
from regard.attention import Memory
from regard.attention.pointer import STEP_TOKEN as STEP
from regard.attention.pointer import PointerAttention, PointerAttentionConfig
from regard.config import from_dict
from regard.data.batch import collate
from regard.errors import ConfigError
from regard.models.rnn.model import RnnModel
from regard.text.tokenizers import words
from regard.text.tokenizers.words import ActionsTokenizer
from regard.text.vocabulary import EOS, Vocabulary
from regard.training.run_config import RunConfig


@pytest.fixture
def model() -> RnnModel:
    decoder = {"query": "previous", "input_feeding": "context"}
    return build_rnn(decoder=decoder, attention={"kind": "pointer"})


SOURCES = [[6, 7, 8, 9], [6, 7]]
TARGETS = [[6, STEP, STEP, 7, 8, STEP, 9, EOS], [6, STEP, 7, STEP, STEP, 8, EOS]]
# Number of steps before each token. In the second sentence the pointer stops at the last word.
POSITIONS = [[0, 0, 1, 2, 2, 2, 3, 3], [0, 0, 1, 1, 1, 1, 1, 0]]


def test_pointer_position_is_the_number_of_preceding_steps(model) -> None:
    outcome = model(collate(SOURCES, TARGETS, [0, 1]))
    weights = outcome.cross_attentions[0][:, :, 0]
    real = outcome.mask
    assert torch.equal(weights[real].argmax(-1), torch.tensor(POSITIONS)[real])
    assert torch.equal(weights[real].sum(-1), torch.ones(int(real.sum())))


def test_each_hypothesis_has_its_own_pointer() -> None:
    mechanism = PointerAttention(PointerAttentionConfig(), 4, 4)
    memory = Memory(torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).select(torch.tensor([0, 0]))
    state = mechanism.advance(mechanism.start(memory), torch.tensor([STEP, 7]))
    state = mechanism.advance(state.select(torch.tensor([1, 0])), torch.tensor([8, STEP]))
    reading = mechanism.read(torch.zeros(2, 4), memory, state)
    assert reading.weights[:, 0].argmax(-1).tolist() == [0, 2]
    assert torch.equal(reading.contexts[:, 0], memory.states[0, [0, 2]])


def test_pointer_attention_requires_the_actions_tokenizer() -> None:
    files = {"source": "a", "target": "b"}
    run = {"data": {"train": [files], "valid": files}, "model": {"attention": {"kind": "pointer"}}}
    with pytest.raises(ConfigError, match="'actions'"):
        from_dict(RunConfig, run)
    run["data"]["target_tokenizer"] = {"kind": "actions"}
    assert from_dict(RunConfig, run).model.attention == PointerAttentionConfig()


def test_step_token_is_the_id_that_the_actions_tokenizer_assigns() -> None:
    vocabulary = Vocabulary.build({"a": 2}, required_tokens=ActionsTokenizer.required_tokens)
    assert vocabulary.to_ids([words.STEP]) == [STEP]
