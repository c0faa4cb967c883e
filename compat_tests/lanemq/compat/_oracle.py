"""Small Java programs that ask the reference's own classes, to compare our answers with."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from ._build import built, run_tool
from ._peers import JAVA_LIGHT, driver_sources, java_libraries


def ask_oracle(name: str, libraries: str, lines: Iterable[str]) -> list[str]:
    """Give ``lines`` to the program ``name`` of drivers/oracles; returns its line for each.

    ``libraries`` is a name for ``java_libraries``. Blocks. Raises ``PeersMissing``,
    ``BuildFailed`` and ``subprocess.CalledProcessError``.
    """
    jars, file = java_libraries(libraries), f"{name}.java"
    source = driver_sources("oracles")[file]

    def make(folder: Path) -> None:
        (folder / file).write_text(source)
        options = ("-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", ".", "-cp", f"{jars}/*")
        run_tool(["javac", *options, file], folder=folder)

    classes = built("java", f"oracle-{name}-{libraries}", [str(jars), source], make)
    asked = list(lines)
    done = subprocess.run(
        ["java", *JAVA_LIGHT, "-cp", f"{classes}:{jars}/*", name],
        input="".join(f"{line}\n" for line in asked),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
        timeout=300,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(asked), "a line of answer for each line of question"
    return answers
