"""The files for containers and systemd name what is there, and options that there are."""

import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "proxy" / "packaging"
COMPOSE = yaml.safe_load((PACKAGING / "compose.yml").read_text())
UNITS = sorted(PACKAGING.glob("*.service"))


def command(name: str) -> click.Command:
    (entry,) = entry_points(group="lanemq.commands", name=name)
    loaded: Any = entry.load()
    assert isinstance(loaded, click.Command)
    return loaded


def parsed(words: list[str]) -> dict[str, object]:
    """The options of a command line of lanemq, as its command reads them."""
    made = command(words[0])
    return made.make_context(words[0], words[1:]).params


@pytest.mark.parametrize("name", ["proxy-1", "proxy-2"])
def test_proxies_in_containers_have_their_ports_open_and_know_each_other(name: str) -> None:
    service = COMPOSE["services"][name]
    options = parsed(shlex.split(service["command"]))
    opened = {int(port.rpartition(":")[2]) for port in service["ports"]}
    main, broker = options["port"], options["broker_port"]
    assert isinstance(broker, int)
    assert opened == {main, broker, broker - 2}
    peers = options["peers"]
    assert isinstance(peers, tuple)
    (peer,) = peers
    other, _, port = str(peer).rpartition(":")
    assert parsed(shlex.split(COMPOSE["services"][other]["command"]))["port"] == int(port)
    assert f"{options['upstream']}".partition(":")[0] in COMPOSE["services"]
    volumes = {volume.partition(":")[0] for volume in service["volumes"]}
    assert volumes <= COMPOSE["volumes"].keys()
    built = ROOT / service["build"]["dockerfile"]
    assert (PACKAGING / service["build"]["context"]).resolve() == ROOT
    assert built == PACKAGING / "Dockerfile"


def test_the_image_is_made_of_what_the_wheel_needs() -> None:
    text = (PACKAGING / "Dockerfile").read_text()
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            copied.add(source)
    project = (ROOT / "pyproject.toml").read_text()
    included = re.search(r"only-include = \[(.*?)\]", project, re.S)
    assert included is not None
    for path in re.findall(r'"([^"]+)"', included[1]):
        assert any(path == one or path.startswith(f"{one}/") for one in copied), path


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_start_commands_that_there_are(unit: Path) -> None:
    text = unit.read_text()
    start = re.search(r"^ExecStart=/opt/lanemq/bin/lanemq (.*)$", text, re.M)
    example = re.search(r"^# (LANEMQ_\w+)=(.*)$", text, re.M)
    assert start is not None
    assert example is not None
    words = shlex.split(start[1].replace(f"${example[1]}", example[2]))
    options = parsed(words)
    state = re.search(r"^StateDirectory=(.*)$", text, re.M)
    assert state is not None
    assert str(options["data"]) == f"/var/lib/{state[1]}"
    assert unit.stem in text
