"""Apache RocketMQ name servers and brokers as daemons: command lines and configuration."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import trio

from ..peers._programs import JAVA_LIGHT, java_libraries
from ._control import Control
from ._daemon import Daemon

REGISTRATION_S = 0.5
"""Seconds that a broker has for its own registration."""
APACHE_VERSIONS = ("4.9.7", "5.3.3")
CLUSTER_NAME = "DefaultCluster"

# What a JDK 17 keeps closed and the brokers use.
EXPORTS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)

# With TLS offered, each server signs a certificate for itself as it starts: two to five seconds of
# a processor without the second compiler.
NO_TLS = "-Dtls.server.mode=disabled"

FLUSH_METRICS_MS = "300"
"""Milliseconds between the notes that a broker of 5.3.3 takes of transactions, by default 3000. Up
to the first of them it keeps a whole processor busy (``TransactionMetricsFlushService``)."""

# Small files, so that a test store costs megabytes. A store can only be opened with the sizes
# it was made with, so all test brokers, lanemq's too, have these.
SMALL_FILES = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 30_000),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
}
# Patient queues, because a busy two-core machine is not an overloaded broker.
TEST_STORE = {
    **SMALL_FILES,
    "diskMaxUsedSpaceRatio": "98",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
    "brokerFastFailureEnable": "false",
    "timerWheelEnable": "false",
    "enablePropertyFilter": "true",
}

_LOGBACK = """<configuration>
  <appender name="out" class="{package}ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5level %logger %msg%n</pattern></encoder>
  </appender>
  {loggers}
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


def apache_name_server(
    version: str, folder: Path, *, port: int, heap: str = "128m", tls: bool = False
) -> Daemon:
    """Describe an Apache name server on ``127.0.0.1:port``; not started yet.

    With ``tls`` it takes TLS too, with a certificate of its own.
    """
    home = _home(folder)
    configuration = folder / "namesrv.conf"
    configuration.write_text(_properties({"listenPort": str(port)}))
    control = Control(f"127.0.0.1:{port}")
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    return Daemon(
        f"apache-namesrv-{version}",
        _java(version, home, main, heap=heap, arguments=("-c", str(configuration)), tls=tls),
        folder=folder,
        ready=control.answers,
    )


def apache_broker(
    version: str,
    folder: Path,
    *,
    port: int,
    name_server: str | None,
    store: Path,
    name: str = "broker-a",
    settings: Mapping[str, str] = TEST_STORE,
    heap: str = "384m",
    light: bool = True,
    talkative: Sequence[str] = (),
) -> Daemon:
    """Describe an Apache broker on ``127.0.0.1:port``; not started yet.

    It also takes ``port + 1`` and ``port - 2``. ``settings`` are keys of broker.conf beside
    those that say where it is. ``light`` chooses a compiler and a collector for short runs,
    no TLS, and only warnings in the log, but everything from the loggers in ``talkative``;
    without it the JVM and the broker are as they come. Without a ``name_server`` the broker
    registers nowhere, and is ready when it answers.
    """
    home = _home(folder, talkative)
    configuration = folder / "broker.conf"
    placed = {
        "brokerClusterName": CLUSTER_NAME,
        "brokerName": name,
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        **({} if name_server is None else {"namesrvAddr": name_server}),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "autoCreateTopicEnable": "true",
        **({"transactionMetricFlushInterval": FLUSH_METRICS_MS} if light else {}),
    }
    configuration.write_text(_properties({**placed, **settings}))
    control = Control(f"127.0.0.1:{port}")
    main = "org.apache.rocketmq.broker.BrokerStartup"
    arguments = ("-c", str(configuration))
    return Daemon(
        f"apache-broker-{version}",
        _java(version, home, main, heap=heap, arguments=arguments, light=light, tls=not light),
        folder=folder,
        ready=control.answers if name_server is None else _registered(control, name_server, name),
        environment={} if name_server is None else {"NAMESRV_ADDR": name_server},
    )


def apache_proxy(folder: Path, *, port: int, name_server: str, heap: str = "512m") -> Daemon:
    """Describe Apache's own proxy 5.3.3, for clients of the remoting protocol at
    ``127.0.0.1:port``; it takes a port for gRPC, too, one above."""
    home = _home(folder)
    settings = {
        "rocketMQClusterName": CLUSTER_NAME,
        "namesrvAddr": name_server,
        "proxyMode": "CLUSTER",
        "remotingListenPort": port,
        "grpcServerPort": port + 1,
        "localServeAddr": "127.0.0.1",
        "remotingAccessAddr": "127.0.0.1",
    }
    configuration = folder / "rmq-proxy.json"
    configuration.write_text(json.dumps(settings))
    control = Control(f"127.0.0.1:{port}")
    main = "org.apache.rocketmq.proxy.ProxyStartup"
    command = _java(
        "5.3.3",
        home,
        main,
        heap=heap,
        arguments=("-pc", str(configuration)),
        light=False,
        jars=java_libraries("proxy-5.3.3"),
    )
    return Daemon("apache-proxy-5.3.3", command, folder=folder, ready=control.listens)


def _registered(broker: Control, name_server: str, name: str) -> Callable[[], Awaitable[bool]]:
    """Return a question: whether a broker serves, and its name server routes to it.

    A broker of 5.3.3 registers with the name servers that it has connected to, which it looks for
    0.1 s after its client has started (``NettyRemotingClient.scanAvailableNameSrv``). One that is
    ready before that registers nowhere, and again only after ten seconds; it is asked to. Its name
    is a topic that it has in any case.
    """
    asked_s = math.inf

    async def ready() -> bool:
        nonlocal asked_s
        # The name server may still have the old registration of a broker that was killed.
        if not await broker.listens():
            asked_s = math.inf
            return False
        if await Control(name_server).serves(name, broker.name_server):
            return True
        now_s = trio.current_time()
        if now_s - asked_s >= REGISTRATION_S:
            await broker.have_registered()
            asked_s = now_s
        asked_s = min(asked_s, now_s)  # its own registration counts as the first question
        return False

    return ready


def with_tls(command: Sequence[str], properties: Path, mode: str) -> list[str]:
    """Return the command line of an Apache server with TLS: one of its modes, and its file."""
    return [
        *(command[0], f"-Dtls.config.file={properties}", f"-Dtls.server.mode={mode}"),
        *(argument for argument in command[1:] if argument != NO_TLS),
    ]


def mqadmin(version: str, folder: Path) -> list[str]:
    """Return the command line of the real mqadmin of one release, to be followed by a command.

    ``folder`` is where it looks for its home and writes its log.
    """
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return _java(version, _home(folder), main, heap="192m", arguments=())


def _java(
    version: str,
    home: Path,
    main: str,
    *,
    heap: str,
    arguments: tuple[str, ...],
    light: bool = True,
    tls: bool = False,
    jars: Path | None = None,
) -> list[str]:
    jars = jars or java_libraries(f"server-{version}")
    # 5.x looks for rmq.logback.xml on the class path before it takes its own.
    classpath = f"{home / 'conf'}:{jars}/*" if light else f"{jars}/*"
    return [
        "java",
        *(JAVA_LIGHT if light else ()),
        *(() if tls else (NO_TLS,)),
        *EXPORTS,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        f"-Drocketmq.home.dir={home}",
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={home}",  # RocksDB's library is unpacked there, and stays at a kill
        "-cp",
        classpath,
        main,
        *arguments,
    ]


def _home(folder: Path, talkative: Sequence[str] = ()) -> Path:
    """Make the home directory that RocketMQ insists on: it holds only how to log."""
    loggers = "".join(f'<logger name="{name}" level="INFO"/>' for name in talkative)
    home = folder / "home"
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for part in ("namesrv", "broker", "tools"):
        (conf / f"logback_{part}.xml").write_text(_LOGBACK.format(package="", loggers=loggers))
    shaded = _LOGBACK.format(package="org.apache.rocketmq.logging.", loggers=loggers)
    (conf / "rmq.logback.xml").write_text(shaded)
    return home


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
