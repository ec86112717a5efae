"""The models, the aligner and the files of the tests of analyses."""

import pytest
from command_runs import GOLD, REFERENCE, SOURCE, write_lines

from regard.api.alignment import Aligner
from saved_models import save_model


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Return a model without fertilities, and one with fertilities and a sink."""
    directory = tmp_path_factory.mktemp("models")
    free, bound = save_model(directory / "free"), save_model(directory / "bound", fertility=0.75)
    (free / "record.jsonl").write_text('{"kind": "train", "step": 50, "perplexity": 9.5}\n{"kind"')
    return free, bound


@pytest.fixture(scope="session")
def model(models):
    """Return the model without fertilities."""
    return models[0]


@pytest.fixture(scope="session")
def aligner(tmp_path_factory):
    """Return an aligner that links each word to its uppercase form."""
    directory = tmp_path_factory.mktemp("aligner") / "kept"
    sources = [line for line in SOURCE if line] * 3
    Aligner.train(sources, [line.upper() for line in sources], "ibm1", num_threads=1).save(directory)
    return directory


@pytest.fixture
def files(tmp_path):
    """Return a directory with the source text, its references and gold links."""
    for name, lines in {"in.txt": SOURCE, "ref.txt": REFERENCE, "gold.talp": GOLD}.items():
        write_lines(tmp_path / name, lines)
    return tmp_path
