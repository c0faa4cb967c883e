"""Real software, fetched by its own package tool and kept in ``peers_dir()``.

Java libraries come through Maven, Go clients through the Go tool, the Node client through
npm, the C++ client through pip; each tool knows where to look, so no address is written here.
Versions are pinned here and nowhere else.
"""

import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from .._errors import PeersMissing
from ._build import built, locked, run_tool
from ._source_release import PREVIEW_SERVER, compile_release

MAVEN_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
CPP_WHEEL = "rocketmq==0.4.4"
"""A wheel with the library of rocketmq-client-cpp, and its C API by ctypes."""
CPP_MACHINE = "Linux x86_64"
_NO_LOG = '<configuration><root level="OFF"/></configuration>\n'
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
    "spring-2.3.3": ("org.apache.rocketmq:rocketmq-spring-boot-starter:2.3.3",),
    "proxy-5.3.3": ("org.apache.rocketmq:rocketmq-proxy:5.3.3",),
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


def missing_tools(kind: str) -> str | None:
    """Return what is missing here for ``kind`` ("java", "go", "node", "cpp"), or ``None``."""
    if kind == "cpp":
        machine = f"{platform.system()} {platform.machine()}"
        right = machine == CPP_MACHINE
        return None if right else f"{CPP_WHEEL} is for {CPP_MACHINE}, and this is {machine}"
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


def make_tools_home(folder: Path) -> None:
    """Make a folder a home of Apache's tools, which insist on a file that says how to log."""
    (folder / "conf").mkdir(exist_ok=True)
    for logger in ("logback_tools.xml", "rmq.logback.xml"):
        (folder / "conf" / logger).write_text(_NO_LOG)


def java_program(
    name: str, sources: Mapping[str, str], libraries: str, *, quiet: bool = False
) -> str:
    """Compile Java sources (file name -> text) against a set of ``JAVA_LIBRARIES``.

    A ``quiet`` one is a home of Apache's tools, too.
    Returns the class path of the program. Blocks; raises ``PeersMissing``, ``BuildFailed``.
    """
    jars = java_libraries(libraries)

    def make(folder: Path) -> None:
        for file_name, text in sources.items():
            (folder / file_name).write_text(text, encoding="utf-8")
        if quiet:
            make_tools_home(folder)
        options = ("-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", ".", "-cp", f"{jars}/*")
        run_tool(["javac", *options, *sorted(sources)], folder=folder)

    recipe = [str(jars), *(part for item in sorted(sources.items()) for part in item), str(quiet)]
    return f"{built('java', name, recipe, make)}:{jars}/*"


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
