"""The examples of public names in the reference run and have the documented values."""

from pathlib import Path

import pytest
import site_examples
import site_reference
import torch

from test_docs import plain, run

FILES = sorted(site_examples.EXAMPLES.glob("*.py"))
IN_THE_TUTORIAL = {
    f"regard.register_{part}" for part in ("aligner", "detector", "model", "score_function", "tokenizer")
} | {"regard.__version__"}
"""Names whose examples would be as long as a page; "Extending regard" lists their contracts."""

WITH_MODELS = ["toolkit"]
"""Files whose examples read the models of `docs_world`; `test_code_blocks` runs them."""


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem not in WITH_MODELS], ids=lambda path: path.stem
)
def test_examples_have_the_documented_values(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    common, sections = site_examples.sections(path)
    for name, code in sections.items():
        torch.manual_seed(0)
        names: dict[str, object] = {}
        exec(common, names)
        for documented, found in run(code, names):
            assert plain(found) == plain(documented), name


def test_public_names_have_one_example_each() -> None:
    public = {f"{module}.{name}" for module, names in site_reference.public_names().items() for name in names}
    names = [name for path in FILES for name in site_examples.sections(path)[1]]
    assert len(names) == len(set(names)) and set(names) <= public
    modules = ("regard", "regard.functional", "regard.nn", "regard.analyze")
    required = {name for name in public if name.rpartition(".")[0] in modules}
    assert required - set(names) == IN_THE_TUTORIAL
