"""Laws of extensions: each can be deleted, and the package still works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.config.extensions import hook, installed_extensions, named_object

PACKAGE = Path(regard.__file__).parent


def without(extension: str, directory: Path) -> Path:
    """Return a directory with a package that lacks an extension, made of links."""
    (directory / "regard" / "extensions").mkdir(parents=True)
    for source, links in ((PACKAGE, "regard"), (PACKAGE / "extensions", "regard/extensions")):
        for path in source.iterdir():
            if path.name not in ("__pycache__", "extensions", extension):
                (directory / links / path.name).symlink_to(path)
    return directory


@pytest.mark.parametrize("extension", installed_extensions())
def test_the_package_works_without_the_extension(extension: str, tmp_path: Path) -> None:
    code = "import sys, regard, regard.cli.main as cli; print(dir(regard)); cli.main()"
    environment = os.environ | {
        "PYTHONPATH": str(without(extension, tmp_path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], env=environment, capture_output=True, text=True, check=True
    )
    description = installed_extensions()[extension]
    commands = [name.rpartition(":")[2] for names in description.commands.values() for name in names]
    assert not any(f"'{name}'" in done.stdout for name in description.names)
    assert not any(f"\n│ {name.removesuffix('_command')} " in done.stdout for name in commands)
    assert "\n│ translate " in done.stdout


def test_everything_that_an_extension_names_exists() -> None:
    for extension in installed_extensions().values():
        for name, home in extension.names.items():
            assert named_object(f"{home}:{name}") is getattr(regard, name)
        for names in extension.commands.values():
            assert all(callable(named_object(name)) for name in names)
        assert all(named_object(name) is not None for name in extension.hooks.values())


def test_a_hook_without_an_extension_is_empty() -> None:
    assert hook("no such hook") is None
