"""Servers of a release that was published only as source: 5.0.0-PREVIEW.

Of that release the repositories hold the client's libraries and the source archive. Name server,
broker and mqadmin are compiled from the archive against the libraries, as published.
"""

import os
import shutil
import zipfile
from pathlib import Path

from ._build import run_tool

MODULES = ("acl", "broker", "filter", "namesrv", "srvutil", "store", "tools")

PREVIEW_SERVER = (
    # All four by name: dledger brings an older remoting of its own.
    *(
        f"org.apache.rocketmq:rocketmq-{part}:5.0.0-PREVIEW"
        for part in ("client", "common", "logging", "remoting")
    ),
    "org.apache.rocketmq:rocketmq-all:5.0.0-PREVIEW:zip:source-release",
    # What the modules above ask for, in the versions of that release.
    "ch.qos.logback:logback-classic:1.0.13",
    "com.googlecode.concurrentlinkedhashmap:concurrentlinkedhashmap-lru:1.4.2",
    "commons-cli:commons-cli:1.2",
    "io.openmessaging.storage:dledger:0.2.2",
    "net.java.dev.jna:jna:4.2.2",
    "org.javassist:javassist:3.20.0-GA",
    "org.slf4j:slf4j-api:1.7.7",
    "org.yaml:snakeyaml:1.19",
)


def compile_release(jars: Path) -> None:
    """Compile the source archive among ``jars``, if there is one, and leave a jar in its place.

    Blocks; raises ``BuildFailed``.
    """
    for archive in jars.glob("rocketmq-all-*-source-release.zip"):
        version = archive.name.removeprefix("rocketmq-all-").removesuffix("-source-release.zip")
        for jar in jars.glob("slf4j-log4j12-*.jar"):
            jar.unlink()  # dledger's; the servers insist on logback
        work = jars.parent / "source"
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                module, _, rest = name.partition("/")[2].partition("/")
                if module in MODULES and rest.startswith(("src/main/java/", "src/main/resources/")):
                    opened.extract(name, work)
        sources = sorted(str(path) for path in work.rglob("*.java"))
        listing = work / "sources.txt"
        listing.write_text("\n".join(sources))
        classes = work / "classes"
        # A store of that time reaches into what a JDK 17 keeps closed.
        closed = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"
        options = ("-nowarn", "-proc:none", "-encoding", "UTF-8", closed)
        run_tool(["javac", *options, "-d", classes, "-cp", f"{jars}/*", f"@{listing}"], folder=work)
        with zipfile.ZipFile(jars / f"rocketmq-servers-{version}.jar", "w") as jar_file:
            roots = [classes, *(path for path in work.rglob("src/main/resources"))]
            for root in roots:
                for path in sorted(root.rglob("*")):
                    if path.is_file():
                        jar_file.write(path, os.path.relpath(path, root))
        archive.unlink()
        shutil.rmtree(work)
