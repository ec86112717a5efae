"""Tests of atomic writing of files and directories."""

import os
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.files import atomic_directory, open_atomic, partial_directory, write_atomic
from regard.text.reading import checked_file, read_bytes


def test_symbolic_links_are_followed_and_devices_are_not_replaced(tmp_path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomic(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"
    write_atomic(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_circular_symbolic_links_are_rejected(tmp_path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match="a: cannot be written: Too many levels of symbolic links"):
        write_atomic(tmp_path / "a", b"x")
    with pytest.raises(OSError, match="Too many levels"), atomic_directory(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_symlink()


def test_full_disk_and_missing_directory_are_reported(tmp_path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        write_atomic(tmp_path / "nowhere" / "a", b"")
    if Path("/dev/full").is_char_device():
        with pytest.raises(DataError, match="No space left"):
            write_atomic(Path("/dev/full"), b"x")


def test_named_pipes_are_written_to_and_not_replaced(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"through")
    assert os.read(reader, 99) == b"through" and pipe.is_fifo()
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_writing_is_atomic_and_an_error_keeps_the_old_file(tmp_path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, b"older")
    write_atomic(path, b"old")
    with pytest.raises(ValueError, match="mine"), open_atomic(path) as file:
        file.write(b"half")
        raise ValueError("mine")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_unrelated_errors_are_not_renamed(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_atomic(tmp_path / "a") as file:
        file.write((tmp_path / "elsewhere").read_bytes())


def test_partial_files_of_killed_processes_are_removed(tmp_path) -> None:
    left = [tmp_path / f".{name}.0123abcd.partial" for name in ("a", "b", "a.b")]
    for directory in left:
        directory.mkdir()
        (directory / "half").write_bytes(b"half")
    with partial_directory(tmp_path / "a") as alive:
        write_atomic(tmp_path / "a", b"whole")
        assert alive.is_dir()
    assert [directory.exists() for directory in left] == [False, True, True]


def test_file_names_of_maximum_length_can_be_written(tmp_path) -> None:
    path = tmp_path / ("ä" * 127)
    write_atomic(path, b"x")
    assert path.read_bytes() == b"x"


def test_directory_is_replaced_as_a_whole(tmp_path) -> None:
    place = tmp_path / "link"
    place.symlink_to(tmp_path / "real")
    for content in ("old", "new"):
        with atomic_directory(place) as made:
            (made / "inner").mkdir()
            (made / "inner" / content).write_text(content)
    assert [path.name for path in (place / "inner").iterdir()] == ["new"] and place.is_symlink()
    with pytest.raises(ValueError), atomic_directory(place) as made:
        (made / "third").write_text("third")
        raise ValueError
    assert [path.name for path in place.iterdir()] == ["inner"]
    with pytest.raises(OSError, match="not empty"), atomic_directory(place, require_empty=True) as made:
        (made / "third").write_text("third")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_directory_is_restored_after_a_kill_between_two_renames(tmp_path) -> None:
    old = tmp_path / ".a.0123abcd.partial" / "old" / "a"
    old.mkdir(parents=True)
    (old / "file").write_text("old")
    assert read_bytes(checked_file(tmp_path / "a", "file")) == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
