"""Real software, fetched by its own package tool and kept in ``peers_dir()``.

Java libraries come through Maven, the Go client through the Go tool, the Node client through
npm; each tool knows where to look, so no address is written here. Versions are pinned here
and nowhere else.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from xml.sax.saxutils import escape

from .._errors import PeersMissing
from ._build import built, locked, run_tool
from ._source_release import PREVIEW_SERVER, compile_release

MAVEN_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
ALI_ONS_VERSION = "3.12.0"
# v2.1.0 asks for versions of these two that do not run on current Go releases.
GO_REPLACEMENTS = {
    "github.com/modern-go/reflect2": "v1.0.2",
    "github.com/json-iterator/go": "v1.1.12",
}
TOOLS = {
    "java": ("JDK 17 or newer and Maven", ("java", "javac", "mvn")),
    "go": ("Go", ("go",)),
    "node": ("Node and npm", ("node", "npm")),
}

JAVA_LIBRARIES = {
    "client-3.2.6": ("com.alibaba.rocketmq:rocketmq-client:3.2.6",),
    "client-4.2.0": ("org.apache.rocketmq:rocketmq-client:4.2.0",),
    "client-4.9.7": ("org.apache.rocketmq:rocketmq-client:4.9.7",),
    "client-acl-4.9.7": tuple(
        f"org.apache.rocketmq:rocketmq-{part}:4.9.7" for part in ("client", "acl")
    ),
    "client-5.3.3": ("org.apache.rocketmq:rocketmq-client:5.3.3",),
    "server-4.9.7": tuple(
        f"org.apache.rocketmq:rocketmq-{part}:4.9.7" for part in ("namesrv", "broker", "tools")
    ),
    "server-5.3.3": tuple(
        f"org.apache.rocketmq:rocketmq-{part}:5.3.3" for part in ("namesrv", "broker", "tools")
    ),
    "client-5.0.0-PREVIEW": ("org.apache.rocketmq:rocketmq-client:5.0.0-PREVIEW",),
    "server-5.0.0-PREVIEW": PREVIEW_SERVER,
}
"""Names for ``java_libraries``: group, artifact, version, and for other things than jars type
and classifier. A server set holds the name server, the broker and mqadmin."""

# Clients of every version reach into these packages, which a modern JDK keeps closed.
JAVA_OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
)
# Short runs on few cores: no second compiler, no collector threads.
JAVA_LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaClient:
    """One release of the Java client, driven from the common source."""

    version: str
    features: tuple[str, ...]
    """Optional source files, each one API that some release lacks."""
    packages: tuple[tuple[str, str], ...]
    """Package names in the source -> names in this release, longest first."""


_LATER_HEARTBEAT = ("org.apache.rocketmq.common.protocol", "org.apache.rocketmq.remoting.protocol")
JAVA_CLIENTS = {
    client.version: client
    for client in (
        JavaClient(
            version="3.2.6",
            features=("OldTransactions",),
            packages=(("org.apache.rocketmq", "com.alibaba.rocketmq"),),
        ),
        JavaClient(
            version="4.2.0",
            features=("Batches", "OldTransactions", "Selectors"),
            packages=(),
        ),
        JavaClient(
            version="4.9.7",
            features=("Batches", "LitePull", "Requests", "Selectors", "Transactions"),
            packages=(),
        ),
        JavaClient(
            version="5.3.3",
            features=("Batches", "LitePull", "Requests", "Selectors", "Timers", "Transactions"),
            packages=(_LATER_HEARTBEAT,),
        ),
        JavaClient(
            version="5.0.0-PREVIEW",
            features=(
                *("Batches", "LitePull", "LogicalQueues"),
                *("Requests", "Selectors", "Transactions"),
            ),
            packages=(),
        ),
    )
}
GO_CLIENTS = ("2.1.0",)


def missing_tools(kind: str) -> str | None:
    """Return the tool that is missing to use ``kind`` ("java", "go", "node"), or ``None``."""
    title, programs = TOOLS[kind]
    absent = [program for program in programs if shutil.which(program) is None]
    return f"{title} needed: no {', '.join(absent)} on PATH" if absent else None


def peers_available(*kinds: str) -> bool:
    """Return whether the tools for all of ``kinds`` (default: all of them) are on this machine."""
    return all(missing_tools(kind) is None for kind in kinds or TOOLS)


def peers_required() -> bool:
    """Return whether a missing peer is a failure: ``LANEMQ_REQUIRE_PEERS=1``."""
    return os.environ.get("LANEMQ_REQUIRE_PEERS", "") not in ("", "0")


def require_tools(kind: str) -> None:
    """Raise ``PeersMissing`` unless the tools for ``kind`` are here."""
    if reason := missing_tools(kind):
        raise PeersMissing(reason)


def java_libraries(name: str) -> Path:
    """Return a folder with all jars of a set of ``JAVA_LIBRARIES``, fetching it if needed.

    Blocks (use a worker thread in async code). Raises ``PeersMissing``, ``BuildFailed``.
    """
    require_tools("java")
    coordinates = JAVA_LIBRARIES[name]
    project = _maven_project(coordinates)

    def make(folder: Path) -> None:
        (folder / "pom.xml").write_text(project)
        goal = f"{MAVEN_DEPENDENCY_PLUGIN}:copy-dependencies"
        options = ("-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}")
        # Maven's own store of what it fetched is not made for two of them at once.
        with locked("maven"):
            run_tool(["mvn", "-q", "-B", goal, *options], folder=folder)
        compile_release(folder / "jars")

    return built("java", name, [project, MAVEN_DEPENDENCY_PLUGIN], make) / "jars"


def java_program(name: str, sources: Mapping[str, str], libraries: str) -> str:
    """Compile Java sources (file name -> text) against a set of ``JAVA_LIBRARIES``.

    Returns the class path of the program. Blocks; raises ``PeersMissing``, ``BuildFailed``.
    """
    jars = java_libraries(libraries)

    def make(folder: Path) -> None:
        for file_name, text in sources.items():
            (folder / file_name).write_text(text, encoding="utf-8")
        options = ("-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", ".", "-cp", f"{jars}/*")
        run_tool(["javac", *options, *sorted(sources)], folder=folder)

    recipe = [str(jars), *(part for item in sorted(sources.items()) for part in item)]
    return f"{built('java', name, recipe, make)}:{jars}/*"


def java_driver(version: str, *, warm_up: bool = True) -> list[str]:
    """Return the command line of the Java driver for one client release, building it if needed.

    Without ``warm_up`` a client that knows logical queues is left as applications have it: it
    cannot read their routes (see ``FeatureLogicalQueues.java``).
    """
    sources = client_sources(version)
    return [
        "java",
        *JAVA_LIGHT,
        *JAVA_OPENS,
        "-Xmx192m",
        "-Xss512k",
        "-Dfile.encoding=UTF-8",
        "-Drocketmq.client.logUseSlf4j=false",
        *(() if warm_up else ("-Dlanemq.warmUp=false",)),
        "-cp",
        java_program(f"driver-{version}", sources, f"client-{version}"),
        "Driver",
    ]


def client_sources(version: str) -> dict[str, str]:
    """Return the Java driver's sources as one client release gets them: file name -> text."""
    client = JAVA_CLIENTS[version]
    sources = {
        name: text for name, text in driver_sources("java").items() if _belongs(name, client)
    }
    for name, text in sources.items():
        for written, real in client.packages:
            text = text.replace(written, real)
        sources[name] = text.replace("@VERSION@", version)
    return sources


def go_driver(version: str) -> list[str]:
    """Return the command line of the Go driver, building it if needed."""
    require_tools("go")
    sources = driver_sources("go")
    requires = {"github.com/apache/rocketmq-client-go/v2": f"v{version}", **GO_REPLACEMENTS}
    lines = "".join(f"\t{module} {pinned}\n" for module, pinned in requires.items())
    sources["go.mod"] = f"module lanemq/driver\n\ngo 1.21\n\nrequire (\n{lines})\n"

    def make(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text.replace("@VERSION@", version))
        run_tool(["go", "build", "-mod=mod", "-o", "driver", "."], folder=folder)

    recipe = [version, *(part for item in sorted(sources.items()) for part in item)]
    return [str(built("go", f"driver-{version}", recipe, make) / "driver")]


def node_driver(version: str = ALI_ONS_VERSION) -> list[str]:
    """Return the command line of the Node driver, fetching ali-ons if needed."""
    require_tools("node")
    sources = driver_sources("node")
    sources["package.json"] = (
        f'{{"name": "driver", "private": true, "dependencies": {{"ali-ons": "{version}"}}}}\n'
    )

    def make(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text.replace("@VERSION@", version))
        quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
        run_tool(["npm", "install", *quiet], folder=folder)

    recipe = [part for item in sorted(sources.items()) for part in item]
    return ["node", str(built("node", "driver", recipe, make) / "driver.js")]


def driver_sources(language: str) -> dict[str, str]:
    return {
        source.name: source.read_text(encoding="utf-8")
        for source in _folder(language).iterdir()
        if source.is_file()
    }


def _folder(language: str) -> Traversable:
    return files("lanemq.compat").joinpath("drivers", language)


def _belongs(source: str, client: JavaClient) -> bool:
    """Return whether a Java file goes into this client's driver: ``FeatureX.java`` are optional."""
    stem = source.removesuffix(".java")
    return not stem.startswith("Feature") or stem.removeprefix("Feature") in client.features


def _maven_project(coordinates: Iterable[str]) -> str:
    tags = ("groupId", "artifactId", "version", "type", "classifier")
    dependencies = "".join(
        "<dependency>"
        + "".join(
            f"<{tag}>{escape(part)}</{tag}>"
            for tag, part in zip(tags, coordinate.split(":"), strict=False)
        )
        + "</dependency>"
        for coordinate in coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lanemq.peers</groupId><artifactId>peers</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )
