"""Every numeric option has a reasonable upper bound, and absurd input gives one error message."""

import dataclasses
import importlib
import pkgutil
import typing

import annotated_types
import pytest

import regard
from regard.config import read_config
from regard.errors import ConfigError
from regard.training.run_config import RunConfig


def configurations():
    """Return every public configuration class of the package, by its qualified name."""
    found = {}
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        # Kernels have no configuration, and the import of those for the CPU compiles them.
        if module.name.startswith("regard.kernels.") or module.name.endswith(".__main__"):
            continue
        loaded = importlib.import_module(module.name)
        for name, cls in vars(loaded).items():
            if getattr(cls, "__module__", "") == module.name and hasattr(cls, "__pydantic_fields__"):
                if dataclasses.is_dataclass(cls) and not name.startswith("_"):
                    found[f"{module.name}.{name}"] = cls
    return found


def numbers(hint, metadata):
    """Yield the number types of a type hint, each with its constraints."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *more = typing.get_args(hint)
        yield from numbers(inner, [*metadata, *(m for one in more for m in getattr(one, "metadata", [one]))])
    elif hint in (int, float):
        yield hint, metadata
    elif typing.get_origin(hint) is not typing.Literal:
        for part in typing.get_args(hint):
            yield from numbers(part, metadata)


CLASSES = configurations()
assert len(CLASSES) > 50


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_numeric_option_has_an_upper_bound(name):
    cls = CLASSES[name]
    hints = typing.get_type_hints(cls, include_extras=True)
    for field, info in cls.__pydantic_fields__.items():
        for kind, metadata in numbers(hints[field], info.metadata):
            upper = [one for one in metadata if isinstance(one, annotated_types.Le | annotated_types.Lt)]
            assert upper, f"{name}.{field}: {kind.__name__} without an upper bound"
            bound = getattr(upper[0], "le", None) or getattr(upper[0], "lt", None)
            # Random generators accept any seed of 63 bits.
            assert bound <= (2**63 if field == "seed" else 2**32 if kind is int else 1e38)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = " + "9" * 5000, "digits"),
        ("seed = 0x" + "f" * 50_000, "digits|greater|valid"),
        ("seed = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("a." * 5000 + "b = 1", "nested|unknown|required"),
    ],
)
def test_absurd_toml_gives_one_message(tmp_path, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_config(RunConfig, path)


def test_config_must_be_a_regular_file_of_limited_size(tmp_path):
    with pytest.raises(ConfigError, match="not a regular file"):
        read_config(RunConfig, "/dev/zero")
    path = tmp_path / "run.toml"
    with open(path, "wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
        read_config(RunConfig, path)
