"""Small Java programs that ask the reference's own classes, to compare our answers with."""

import subprocess
from collections.abc import Iterable

from ._drivers import driver_sources
from ._programs import JAVA_LIGHT, java_program


def ask_oracle(name: str, libraries: str, lines: Iterable[str]) -> list[str]:
    """Give ``lines`` to the program ``name`` of drivers/oracles; returns its line for each.

    ``libraries`` is a name for ``java_libraries``. Blocks. Raises ``PeersMissing``,
    ``BuildFailed`` and ``subprocess.CalledProcessError``.
    """
    file = f"{name}.java"
    sources = {file: driver_sources("oracles")[file]}
    class_path = java_program(f"oracle-{name}-{libraries}", sources, libraries)
    asked = list(lines)
    done = subprocess.run(
        ["java", *JAVA_LIGHT, "-cp", class_path, name],
        input="".join(f"{line}\n" for line in asked),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
        timeout=300,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(asked), "a line of answer for each line of question"
    return answers
