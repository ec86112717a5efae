"""Configuration files are validated strictly, and errors name the key and the nearest known key."""

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import pytest

from regard.config import (
    TaggedUnion,
    config_classes,
    configclass,
    dump_toml,
    from_dict,
    option,
    read_config,
    read_toml,
    to_dict,
)
from regard.config.reference import reference, render_text, select_tables
from regard.errors import ConfigError, PluginError


@configclass
class Oak:
    kind: Literal["oak"] = option(default="oak", help="An oak.")
    height: float = option(default=3.0, help="Its height.", gt=0)


@configclass
class Elm:
    kind: Literal["elm"] = option(default="elm", help="An elm.")
    bark: str = option(default="rough", help="Its bark.")

    def __post_init__(self) -> None:
        """Validate the bark."""
        if not self.bark:
            raise ValueError("an elm has bark")


@configclass
class Corpus:
    path: str = option(help="Path of the corpus.")
    weight: float = option(default=1.0, help="Sampling weight.")


@configclass
class Garden:
    name: str | None = option(default=None, help="Name of the garden.")
    size: int = option(default=2, help="Number of trees.", ge=1)
    tags: tuple[str, ...] = option(default=(), help="Its tags.")
    tree: Annotated[Oak | Elm, TaggedUnion("oak")] = option(default=Oak, help="Its tree.")
    corpora: tuple[Corpus, ...] = option(default=(), help="Its corpora.")


def write(tmp_path, text: str):
    path = tmp_path / "garden.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_overrides_take_precedence_over_file_and_defaults(tmp_path) -> None:
    path = write(tmp_path, 'size = 5\n[tree]\nkind = "elm"\n')
    garden = read_config(Garden, path, ["name=Kew", "tree.bark=smooth", 'tags=["a", "b"]'])
    assert garden == Garden(size=5, name="Kew", tags=("a", "b"), tree=Elm(bark="smooth"))
    # Paths are accepted for text, and integers for floats.
    assert from_dict(Garden, {"name": tmp_path, "tree": {"height": 4}}) == Garden(
        name=str(tmp_path), tree=Oak(height=4.0)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("siez = 3", "unknown key 'siez'; the nearest known key is 'size'"),
        ("[tree]\nkind = 'oak'\nhieght = 3.0", "'tree.hieght'; the nearest known key is 'tree.height'"),
        ("[[corpora]]\nweight = 2.0", "'corpora.0.path' is required"),
        ("[[corpora]]\npath = 'x'\nwieght = 2.0", "corpora.0.wieght"),
        ("size = 'three'", "size"),
        ("size = 0", "size: input should be greater than or equal to 1; got 0"),
        ("[tree]\nkind = 'ash'", "tree: expected a table with kind = 'oak' or 'elm'; got {'kind': 'ash'}"),
        ("[tree]\nkind = [1]", "tree: expected a table with kind = 'oak' or 'elm'"),
        ("tree = 'elm'", "tree: expected a table with kind = 'oak' or 'elm'; got 'elm'"),
        ("[tree]\nkind = 'elm'\nbark = ''", "tree: an elm has bark; got"),
        ("size = 1979-01-01", "size: input should be a valid integer; got datetime.date(1979, 1, 1)"),
        ("size = ", "not valid TOML"),
    ],
)
def test_error_names_key_path_and_file(tmp_path, text, message) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_config(Garden, path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_unknown_key_is_not_suggested_as_its_own_correction(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'tree\.bark'") as caught:
        read_config(Garden, write(tmp_path, "[tree]\nkind = 'oak'\nbark = 'x'\n"))
    assert "key is 'tree.bark'" not in str(caught.value)


def test_all_errors_are_reported_at_once(tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(Garden, write(tmp_path, "size = 0\nnmae = 'x'\n"))
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("override", ["size", "=3", "size.large=3", "corpora.path=x"])
def test_invalid_override_is_rejected(tmp_path, override) -> None:
    with pytest.raises(ConfigError):
        read_config(Garden, write(tmp_path, "size = 3\ncorpora = [{path = 'y'}]"), [override])


@pytest.mark.parametrize(
    ("override", "paths"),
    [("corpora.0.path=z", ["z", "b"]), ("corpora.-1={path = 'z'}", ["a", "z"])],
)
def test_override_changes_one_element_of_a_list(tmp_path, override, paths) -> None:
    text = "size = 3\ncorpora = [{path = 'a'}, {path = 'b'}]"
    assert [one.path for one in read_config(Garden, write(tmp_path, text), [override]).corpora] == paths


@pytest.mark.parametrize("index", ["2", "-3", "last"])
def test_an_index_out_of_range_is_one_message(tmp_path, index) -> None:
    text = "size = 3\ncorpora = [{path = 'a'}, {path = 'b'}]"
    with pytest.raises(ConfigError) as error:
        read_config(Garden, write(tmp_path, text), [f"corpora.{index}.path=z"])
    assert str(error.value) == (
        f"override 'corpora.{index}.path=z': corpora is a list without the element {index!r}; "
        "its elements are corpora.0 to corpora.1"
    )


def test_an_option_without_annotation_is_refused_with_its_name() -> None:
    with pytest.raises(PluginError, match=r"Hut\.doors: an option needs an annotation of its type"):

        @configclass
        class Hut:
            size: int = option(default=1, help="Its size.")
            doors = option(default=1, help="Number of doors.")


@pytest.mark.parametrize("hint", [list[str], set[int] | None, tuple[Path, ...], Enum])
def test_an_option_of_a_type_that_no_toml_value_has_is_an_error(hint) -> None:
    hut = type("Hut", (), {"__annotations__": {"doors": hint}, "doors": option(help="Names of the doors.")})
    with pytest.raises(
        PluginError, match=r"Hut\.doors: an option cannot be of type (list|set|Path|Enum); use"
    ):
        configclass(hut)


def test_default_kind_may_be_omitted(tmp_path) -> None:
    assert read_config(Garden, write(tmp_path, ""), ["tree.height=5"]).tree == Oak(height=5.0)
    with pytest.raises(ConfigError, match=r"unknown key 'tree\.bark'"):
        read_config(Garden, tmp_path / "garden.toml", ["tree.bark=smooth"])


def test_changed_kind_with_options_of_another_is_one_message(tmp_path) -> None:
    path = write(tmp_path, "[tree]\nkind = 'oak'\nheight = 5")
    with pytest.raises(ConfigError, match=r"replace the whole table: 'tree=\{kind = \"elm\", \.\.\.\}'$"):
        read_config(Garden, path, ["tree.kind=elm"])


def test_file_is_utf8_with_any_line_end_and_byte_order_mark(tmp_path) -> None:
    path = tmp_path / "run.toml"
    for line_end in ("\n", "\r\n"):
        path.write_bytes(f"a = 1{line_end}[b]{line_end}c = 'ä'{line_end}".encode("utf-8-sig"))
        assert read_toml(path) == {"a": 1, "b": {"c": "ä"}}
    path.write_bytes(b"\xef\xbb\xbfa = 1\nb = '\xff'\n")
    with pytest.raises(ConfigError, match=r"run\.toml: line 2, byte 15 of the file: not UTF-8"):
        read_toml(path)
    with pytest.raises(ConfigError, match="nowhere"):
        read_config(Garden, tmp_path / "nowhere.toml")


def test_dumped_config_loads_equal(tmp_path) -> None:
    garden = Garden(
        name='a "quoted" \\\x7f\x01ü\n\t',
        tags=("x",),
        tree=Oak(height=float("inf")),
        corpora=(Corpus(path="p", weight=0.5),),
    )
    assert read_config(Garden, write(tmp_path, dump_toml(garden))) == garden
    assert from_dict(Garden, to_dict(garden)) == garden
    assert "name" not in to_dict(Garden())
    with pytest.raises(dataclasses.FrozenInstanceError):
        garden.size = 3  # type: ignore[misc]


def test_the_reference_lists_the_options_of_each_kind() -> None:
    tables = {
        (table.path, table.kind): {option.name: option for option in table.options}
        for table in reference(Garden)
    }
    assert tables["", None]["size"].default == "2"
    assert tables["", None]["size"].help == "Number of trees."
    assert tables["tree", "oak"]["height"].default == "3.0"
    assert tables["tree", "elm"]["bark"].default == '"rough"'
    assert tables["corpora[]", None]["path"].default is None
    assert tables["", None]["name"].default == ""


def test_the_reference_of_a_run_has_at_most_400_lines() -> None:
    from regard.training.run_config import RunConfig

    assert 200 < len(render_text(reference(RunConfig))) <= 400


def test_a_part_of_the_reference_is_a_table_or_one_option() -> None:
    tables = reference(Garden)
    assert [table.kind for table in select_tables(tables, "tree")] == ["oak", "elm"]
    for path, name in (("tree.bark", "bark"), ("corpora.path", "path")):
        assert [option.name for table in select_tables(tables, path) for option in table.options] == [name]
    with pytest.raises(ConfigError, match=r"no option or table 'trees'"):
        select_tables(tables, "trees")


def test_a_table_that_repeats_another_refers_to_it_and_is_shown_in_full_by_name() -> None:
    tables = reference(Town)
    assert next(table for table in tables if table.path == "corpus").same_as == "garden.corpora[]"
    [shown] = select_tables(tables, "corpus")
    assert [option.name for option in shown.options] == ["path", "weight"]


@configclass
class Shed:
    """A table whose key `tree` allows other kinds than that of a garden."""

    kind: Literal["shed"] = option(default="shed", help="A shed.")
    tree: Elm = option(default=Elm, help="Its tree.")
    height: float = option(default=1.0, help="Its height.", ge=1)


@configclass
class Park:
    kind: Literal["park"] = option(default="park", help="A park.")
    tree: Annotated[Oak | Elm, TaggedUnion("oak")] = option(default=Oak, help="Its best tree.")
    height: float = option(default=2.0, help="Its height.", ge=0)


@configclass
class Town:
    place: Annotated[Shed | Park, TaggedUnion("park")] = option(default=Park, help="A place.")
    garden: Garden | None = option(default=None, help="A garden.")
    corpus: Corpus | None = option(default=None, help="A corpus.")


def test_tables_state_their_kinds_and_those_of_the_table_above() -> None:
    assert render_text(reference(Town))[:9] == [
        '[place]  kind = "shed"  A place. A shed.',
        "  height = 1.0  (float, from 1)  Its height.",
        '[place]  kind = "park"  (default)  A park.',
        "  height = 2.0  (float, from 0)  Its height.",
        '[place.tree]  kind = "elm"  (default of shed)  Its tree. An elm.',
        '  bark = "rough"  (str)  Its bark.',
        '[place.tree]  kind = "oak"  (default)  [park] An oak.',
        "  height = 3.0  (float, above 0)  Its height.",
        "[garden]  A garden. Absent by default.",
    ]


def test_every_option_of_a_run_has_a_description_and_no_class_declares_more_than_twelve() -> None:
    from regard.training.run_config import RunConfig

    undescribed = [
        f"{table.path}.{option.name}"
        for table in reference(RunConfig)
        for option in table.options
        if not option.help.endswith(".")
    ]
    assert undescribed == []
    composed = {"TrainingConfig", "GenerationConfig"}  # these inherit the options of other classes
    seen, todo = set(), [RunConfig]
    while todo:
        cls = todo.pop()
        if cls in seen:
            continue
        seen.add(cls)
        assert len(cls.__annotations__) <= 12, cls
        assert len(dataclasses.fields(cls)) <= 12 or cls.__name__ in composed, cls
        hints = get_type_hints(cls, include_extras=True).values()
        todo += [inner for hint in hints for inner in config_classes(hint)]
    assert len(seen) > 8
