"""The tools for stores, and damage for them to find."""

from pathlib import Path

from click.testing import CliRunner, Result

from lanemq.storage.cli import store


def run(*arguments: object) -> Result:
    """Run ``lanemq store``, to an end that it means to have."""
    result = CliRunner().invoke(store, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def first_file(directory: Path) -> Path:
    return min(directory.iterdir())


def change(path: Path, position: int, data: bytes) -> None:
    """Put other bytes into a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
