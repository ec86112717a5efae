import os
from pathlib import Path

import pytest

from regard.data.files import file_digest, read_bytes, write_atomic
from regard.errors import DataError


def test_a_file_is_written_whole_and_leaves_nothing_beside_it(tmp_path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert read_bytes(path) == b"new" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomic(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"
    write_atomic(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_a_full_disk_and_a_missing_folder_are_named_and_the_old_file_stays(tmp_path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        write_atomic(tmp_path / "nowhere" / "a", b"")
    if Path("/dev/full").is_char_device():
        with pytest.raises(DataError, match="No space left"):
            write_atomic(Path("/dev/full"), b"x")


def test_the_digest_is_sha256(tmp_path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # FIPS 180-2, Appendix B.1.
    assert file_digest(tmp_path / "abc").startswith("ba7816bf8f01cfea414140de5dae2223")
