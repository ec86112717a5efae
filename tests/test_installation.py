"""The command that installs an extra names the origin of the installation, or else the packages."""

import json
import shlex
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from regard.installation import install_command

METADATA = """\
Metadata-Version: 2.4
Name: regard
Version: 9.9
Requires-Dist: torch>=2.4
Provides-Extra: serve
Requires-Dist: fastapi>=0.115; extra == 'serve'
Requires-Dist: uvicorn>=0.30; (python_version >= "3.8") and extra == "serve"
Provides-Extra: dev
Requires-Dist: ruff>=0.6; extra == 'dev'
"""


@pytest.fixture
def install(tmp_path: Path):
    """Return a function that makes the metadata of an installation, with the record of its origin."""

    def make(record: object = None, installer: str = "pip") -> Distribution:
        place = tmp_path / "site" / "regard-9.9.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(METADATA)
        (place / "INSTALLER").write_text(f"{installer}\n")
        if record is not None:
            (place / "direct_url.json").write_text(json.dumps(record))
        return Distribution.at(place)

    return make


def test_editable_directory_is_named_with_the_extra(install, tmp_path: Path) -> None:
    source = tmp_path / "my clone"
    source.mkdir()
    found = install({"url": source.as_uri(), "dir_info": {"editable": True}})
    assert install_command("serve", found, tmp_path) == f"pip install -e '{source}[serve]'"


def test_copied_directory_and_wheel_are_named_without_the_editable_flag(install, tmp_path: Path) -> None:
    wheel = tmp_path / "regard-9.9-py3-none-any.whl"
    wheel.touch()
    found = install({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(install_command("serve", found, tmp_path)) == ["pip", "install", f"{wheel}[serve]"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"url": "https://example.org/regard-9.9-py3-none-any.whl", "archive_info": {}},
            "regard[serve] @ https://example.org/regard-9.9-py3-none-any.whl",
        ),
        (
            {"url": "https://example.org/regard.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            "regard[serve] @ git+https://example.org/regard.git@abc123",
        ),
        (
            {
                "url": "ssh://git@example.org/all.git",
                "vcs_info": {"vcs": "git", "commit_id": "f0"},
                "subdirectory": "nmt",
            },
            "regard[serve] @ git+ssh://git@example.org/all.git@f0#subdirectory=nmt",
        ),
    ],
)
def test_address_is_a_direct_reference(install, tmp_path: Path, record, expected) -> None:
    words = shlex.split(install_command("serve", install(record), tmp_path))
    assert words == ["pip", "install", expected]
    # The packaging library, which pip uses, reads the same name, extra and address.
    parsed = Requirement(words[2])
    assert (parsed.name, parsed.extras) == ("regard", {"serve"}) and parsed.url in expected


@pytest.mark.parametrize(
    "record",
    [None, [], {"dir_info": {}}, {"url": "file:///nowhere/regard", "dir_info": {"editable": True}}],
)
def test_unknown_origin_gives_the_packages_of_the_extra(install, tmp_path: Path, record) -> None:
    words = shlex.split(install_command("serve", install(record), tmp_path))
    assert words == ["pip", "install", "fastapi>=0.115", "uvicorn>=0.30"]


def test_environments_of_tools_are_extended_by_their_own_programs(install, tmp_path: Path) -> None:
    found = install(installer="uv")
    assert install_command("dev", found, tmp_path) == "uv pip install 'ruff>=0.6'"
    (tmp_path / "pipx_metadata.json").touch()
    assert install_command("dev", found, tmp_path) == "pipx inject regard 'ruff>=0.6'"
    (tmp_path / "uv-receipt.toml").touch()
    assert install_command("dev", found, tmp_path) == "uv tool install regard --with 'ruff>=0.6'"


def test_every_extra_that_a_message_names_is_declared() -> None:
    import ast
    import tomllib

    root = Path(__file__).parents[1]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for path in (root / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "regard[" not in text or path.name == "installation.py", f"{path}: use install_command"
        if "install_command(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_command":
                named.add(ast.literal_eval(node.args[0]))
    assert named and named <= set(declared)
