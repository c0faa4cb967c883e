"""The driver of each client: one small program per family, built against the real client."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ._build import built, run_tool
from ._programs import CPP_WHEEL, JAVA_LIGHT, JAVA_OPENS, java_program, require_tools

ALI_ONS_VERSION = "3.12.0"
# v2.1.0 asks for versions of these two that do not run on current Go releases.
GO_REPLACEMENTS = {
    "github.com/modern-go/reflect2": "v1.0.2",
    "github.com/json-iterator/go": "v1.1.12",
}
SPRING_VERSIONS = ("2.3.3",)
"""Releases of rocketmq-spring-boot-starter."""
MQADMIN_VERSIONS = ("4.9.7", "5.3.3")


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
GO_CLIENTS = {"2.1.0": ("Select",), "2.1.2": ("SelectWithLastBroker",)}
"""Releases of the Go client, each with its optional source files."""


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


def mqadmin_driver(version: str, home: Path | None = None) -> list[str]:
    """Return the command line of the driver for one release of mqadmin, building it if needed.

    mqadmin looks for its accounts (``conf/tools.yml``) in its ``home``; by default it has none.
    """
    source = driver_sources("mqadmin")["Shell.java"].replace("@VERSION@", version)
    classes, jars = java_program(
        f"mqadmin-{version}", {"Shell.java": source}, f"server-{version}", quiet=True
    ).split(":", 1)
    return [
        "java",
        *JAVA_LIGHT,
        *JAVA_OPENS,
        "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
        "-Xmx192m",
        "-Dfile.encoding=UTF-8",
        f"-Drocketmq.home.dir={home or classes}",
        "-Duser.timezone=UTC",
        *("-cp", f"{classes}/conf:{classes}:{jars}", "Shell"),
    ]


def spring_driver(version: str) -> list[str]:
    """Return the command line of the driver for one release of the Spring Boot starter."""
    sources = {"Driver.java": driver_sources("java")["Driver.java"], **driver_sources("spring")}
    sources = {
        name: text.replace("@VERSION@", f"rocketmq-spring {version}")
        for name, text in sources.items()
    }
    path = java_program(f"driver-spring-{version}", sources, f"spring-{version}", quiet=True)
    classes = path.split(":", 1)[0]
    return [
        "java",
        *JAVA_LIGHT,
        *JAVA_OPENS,
        "-Xmx256m",
        "-Dfile.encoding=UTF-8",
        "-Dorg.springframework.boot.logging.LoggingSystem=none",
        f"-Dlogback.configurationFile={classes}/conf/logback_tools.xml",
        *("-cp", f"{classes}/conf:{path}", "Driver"),
    ]


def client_sources(version: str) -> dict[str, str]:
    """Return the Java driver's sources as one client release gets them: file name -> text."""
    client = JAVA_CLIENTS[version]
    sources = {
        name: text
        for name, text in driver_sources("java").items()
        if _belongs(name.removesuffix(".java"), client.features)
    }
    for name, text in sources.items():
        for written, real in client.packages:
            text = text.replace(written, real)
        sources[name] = text.replace("@VERSION@", version)
    return sources


def go_driver(version: str) -> list[str]:
    """Return the command line of the Go driver, building it if needed."""
    require_tools("go")
    sources = {
        name: text
        for name, text in driver_sources("go").items()
        if _belongs(name.removesuffix(".go"), GO_CLIENTS[version])
    }
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


def cpp_driver() -> list[str]:
    """Return the command line of the driver for rocketmq-client-cpp, fetching its wheel if needed.

    Raises ``PeersMissing`` on machines for which the wheel was not made.
    """
    require_tools("cpp")
    sources = driver_sources("cpp")

    def make(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text.replace("@VERSION@", CPP_WHEEL))
        quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
        run_tool(
            [*(sys.executable, "-m", "pip", "install"), *quiet, "--target=.", CPP_WHEEL],
            folder=folder,
        )

    recipe = [CPP_WHEEL, *(part for item in sorted(sources.items()) for part in item)]
    return [sys.executable, str(built("cpp", "driver", recipe, make) / "driver.py")]


def driver_sources(language: str) -> dict[str, str]:
    return {
        source.name: source.read_text(encoding="utf-8")
        for source in _folder(language).iterdir()
        if source.is_file()
    }


def _folder(language: str) -> Traversable:
    return files("lanemq.compat").joinpath("drivers", language)


def _belongs(stem: str, features: Collection[str]) -> bool:
    """Return whether a source file goes into a client's driver: ``FeatureX`` are optional."""
    return not stem.startswith("Feature") or stem.removeprefix("Feature") in features
