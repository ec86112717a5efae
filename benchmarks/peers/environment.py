"""A virtual environment for each compared toolkit, created from its pinned requirements in a cache directory.

PyTorch is installed first and separately, so that all toolkits run on the build that pip finds here (the
CPU build if its wheel is available or an index is set in the environment, as in `PIP_EXTRA_INDEX_URL`). The
other packages are installed with `--no-deps`, because OpenNMT-py declares an older PyTorch than it needs.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["PEERS", "PeerUnavailableError", "interpreter"]

PEERS = ("opennmt", "joeynmt", "eole")


class PeerUnavailableError(Exception):
    """A toolkit could not be installed; the message contains the reason."""


def interpreter(peer: str, cache: Path) -> Path:
    """Return the Python interpreter of a toolkit's environment, which is created if necessary.

    Args:
        peer: One of `PEERS`; its requirements are in `<peer>.txt` in the directory of this file.
        cache: Directory of the environments, outside the checkout.

    Raises:
        PeerUnavailableError: The environment could not be created.
    """
    requirements = Path(__file__).with_name(f"{peer}.txt")
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    directory = cache / f"{peer}-py{sys.version_info.major}{sys.version_info.minor}-{digest}"
    python, finished = directory / "bin" / "python", directory / "finished"
    if finished.exists():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    pins = [line.strip() for line in requirements.read_text(encoding="utf-8").splitlines()]
    torch = next(pin for pin in pins if pin.startswith("torch=="))
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(peer, [sys.executable, "-m", "venv", directory])
    _run(peer, [*install, "--constraint", requirements, torch])
    _run(peer, [*install, "--no-deps", "--requirement", requirements])
    finished.touch()
    return python


def _run(peer: str, command: list[str | Path]) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeerUnavailableError(f"{peer}: {words[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise PeerUnavailableError(f"{peer}: `{' '.join(words[1:])}` failed: {' / '.join(lines[-3:])}")
