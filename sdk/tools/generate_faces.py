"""Writes the clients of `lanemq.sdk.blocking` and `lanemq.sdk.aio` after those of the core.

    python sdk/tools/generate_faces.py            # write them
    python sdk/tools/generate_faces.py --check    # say which are not as they would be written

Each public method of a client of the core gets one with the same name, parameters and
documentation, which forwards to it. Attributes never wait for the core's thread: those that
``__init__`` sets under a public name are copied, and properties are read from the core, which
publishes whole what they need. What does not follow from the core (the way into it, the
``open_…`` functions) is written by hand beside them. Run it when a client of the core changes; a
test says when that was forgotten.
"""

import ast
import os.path
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SDK: Final = Path(__file__).parents[1] / "lanemq" / "sdk"
FACES: Final = ("blocking", "aio")

CLIENTS: Final = {
    "_producer.py": {
        "_staged_producer.py": ["StagedSender"],
        "_batching_sender.py": ["BatchingSender"],
        "_producer.py": ["Producer"],
        "_transactions.py": ["TransactionProducer"],
    },
    "_consumers.py": {
        "_push_consumer.py": ["PushConsumer"],
        "_lite_pull.py": ["LitePullConsumer"],
    },
    "admin/_logical.py": {"admin/requests/_logical.py": ["LogicalQueueRequests"]},
    "admin/_servers.py": {
        "admin/requests/_broker.py": ["BrokerRequests"],
        "admin/requests/_name_server.py": ["NameServerRequests"],
        "admin/requests/_servers.py": ["ServerRequests"],
        "admin/logical/_operations.py": ["LogicalQueueOperations"],
    },
    "admin/_consumers.py": {
        "admin/requests/_consumers.py": ["ConsumerRequests"],
        "admin/requests/_messages.py": ["MessageRequests"],
    },
    "admin/_client.py": {
        "admin/_client.py": ["AdminClient"],
        "admin/_dead_letters.py": ["dead_letters_of", "resend_dead_letters"],
        "admin/_reset.py": ["reset_offsets_by_time"],
        "admin/_tracks.py": ["tracks_of"],
    },
    "kv/_held.py": {
        "kv/_checkpoint.py": ["Checkpoint"],
        "kv/_lease.py": ["Lease"],
        "kv/_lock.py": ["Lock"],
        "kv/_observe.py": ["Leaders"],
        "kv/_watch.py": ["Watch"],
    },
    "kv/_transactions.py": {"kv/_transactions.py": ["KeyTransactions"]},
    "kv/_ranges.py": {"kv/_ranges.py": ["KeyRanges"]},
    "kv/_leases.py": {"kv/_leases.py": ["KeyLeases"]},
    "kv/_store.py": {"kv/_store.py": ["KeyValueStore"]},
}
"""Modules of a face; for each the modules of the core that it is written after, and of those the
classes that have a face, and the coroutine functions that take such a client first."""

OWNERS: Final = {"admin": ("AdminClient", "_client"), "kv": ("KeyValueStore", "_store")}
"""The folders with classes that a client has as bases: the client, and its module there."""

LISTENERS: Final = {
    "listeners/_listener.py": ["ConcurrentListener"],
    "listeners/_ordered_listeners.py": [
        "OrderlyListener",
        "KeyOrderedListener",
        "StagedConcurrentListener",
    ],
}
"""Listeners; those of the blocking face have functions that are not async."""

SETTINGS: Final = {
    "RemotingOptions": "RemotingSettings",
    "ClientOptions": "ClientSettings",
    "ProducerOptions": "ProducerSettings",
    "ConsumerOptions": "ConsumerSettings",
    "PushOptions": "PushSettings",
    "LitePullOptions": "LitePullSettings",
}
"""Options classes, and the types of their fields as keywords."""

HOMES: Final = {
    name: Path(written).stem
    for written, sources in CLIENTS.items()
    for names in sources.values()
    for name in names
}
"""Classes and functions that are written, and their modules in a face."""
CALLBACKS: Final = {"Execute": "callback", "OnSent | None": "on_sent"}
"""Types of parameters that are functions of the application, and the bridge's way to wrap them."""
CLOSED_BY_CALL: Final = {
    "AdminClient",
    "KeyValueStore",
    "LitePullConsumer",
    "Producer",
    "PushConsumer",
}
CLOSE: Final = {
    True: '''def close(self) -> None:
    """Close this client as the end of its `with` block does; a repeat is harmless."""
    self._bridge.close()''',
    False: '''async def close(self) -> None:
    """Close this client as the end of its `async with` block does; a repeat is harmless."""
    await self._bridge.close()''',
}
"""The end of a client that was opened by ``start``."""
NEXT: Final = """{keyword} {name}(self) -> {returns}:
    message = None if (lent := self._core._buffer.lent) is None else lent.next(monotonic())
    while message is None:  # only a batch costs a hop between threads
        give_back = give_back_lent(self._core)
        lent = {wait}self._bridge.take(give_back, self._core._lend)
        message = lent.next(monotonic())
    return message"""
"""The search for the next message of an iteration."""
WRAPPED: Final = {"Checkpoint", "Leaders", "Watch"}
"""The results of plain methods that have a face of their own."""
GIVEN_BACK_ONE_BY_ONE: Final = {"kv/_observe.py", "kv/_watch.py"}
"""Modules whose iterations take back what a cancelled caller has not seen."""
GIVE_BACK: Final = {"poll": "give_back"}
QUICK: Final = {("Producer", "send")}
"""Methods of classes for which the bridge has a way of its own, without a task of the core."""
PLAIN_TYPES: Final = {"Execute", "Handle", "StageOffsetStore"}  # blocking has its own
ITERATION: Final = {"__aiter__": "__iter__", "__anext__": "__next__"}

LISTENER_IMPORTS: Final = {
    "CoreHandle": "from ..listeners._listener import Handle as CoreHandle",
    "CoreStore": "from ..listeners._ordered_listeners import StageOffsetStore as CoreStore",
    "check_plain": "from ._callables import check_plain",
    "no_handle": "from ._callables import no_handle",
}

TRIO_ONLY: Final = {"Dial", "RemotingClient", "dial_tcp", "open_remoting_client", "over_tls"}
"""The names below the clients, without a face: single frames, and trio's streams."""

OPENERS: Final = {
    "open_lite_pull_consumer": "_open",
    "open_producer": "_open",
    "open_push_consumer": "_open",
    "open_transaction_producer": "_open",
    "open_admin": "_open",
    "open_kv_store": "_open",
}
OWN: Final = {
    "aio": {**OPENERS, **HOMES},
    "blocking": {
        **OPENERS,
        **HOMES,
        **{name: "_listeners" for names in LISTENERS.values() for name in names},
        "StageOffsetStore": "_callables",
    },
}
"""Names that a face does not share with the core, and their modules there."""

NAMES_ARE: Final = "The names are those of lanemq.sdk, and so are options, messages and errors"
PACKAGE_DOCUMENTATION: Final = {
    (
        "blocking",
        "",
    ): f'''"""lanemq.sdk without an event loop: threads, ``with``, ``for``.

{NAMES_ARE}
themselves. Clients may be used from any number of threads. Written by
sdk/tools/generate_faces.py. See docs/sdk.md.
"""''',
    ("blocking", "admin"): '''"""lanemq.sdk.admin for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""''',
    ("blocking", "kv"): '''"""lanemq.sdk.kv for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""''',
    ("aio", ""): f'''"""lanemq.sdk for asyncio.

{NAMES_ARE}
themselves. Written by sdk/tools/generate_faces.py. See docs/sdk.md.
"""''',
    ("aio", "kv"): '''"""lanemq.sdk.kv for asyncio.

Written by sdk/tools/generate_faces.py.
"""''',
    ("aio", "admin"): '''"""lanemq.sdk.admin for asyncio.

Written by sdk/tools/generate_faces.py.
"""''',
}

PLAIN_WORDS: Final = (
    (r"``async with", "``with"),
    (r"``async for", "``for"),
    (r"``await ", "``"),
    (r" await stage\.", " stage."),
    (r"await ``(\w+)``", r"call ``\1``"),
    (r"is awaited", "is called"),
    (r"`async with` block", "`with` block"),
    (r"one task that reads", "one thread that reads"),
    (r"tasks that send", "threads that send"),
    (r"number of tasks", "number of threads"),
    (r"``(\w+)`` tasks at once", r"``\1`` threads at once"),
    (r"the listener is cancelled", "the listener is not waited for"),
)
"""The words of the core's documentation -> those where nothing is async."""


@dataclass
class Output:
    """One module that is written."""

    face: str
    source: str
    """The module of the core, relative to the SDK's folder."""
    tree: ast.Module
    text: str
    used: set[str] = field(default_factory=set)
    """Names of the core's module that the written one needs."""
    helpers: set[str] = field(default_factory=set)
    plain_imports: set[str] = field(default_factory=set)
    here: set[str] = field(default_factory=set)
    """The names of the written module."""
    body: list[str] = field(default_factory=list)

    @property
    def blocking(self) -> bool:
        return self.face == "blocking"

    @property
    def up(self) -> str:
        """The SDK's package, seen from the written module."""
        return "..." if self.source.startswith(("admin/", "kv/")) else ".."

    def expression(self, node: ast.expr) -> str:
        """Return the text of an annotation or default value; notes which names it has."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                self.used.add(part.id)
        return ast.unparse(node)

    def documentation(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        first = node.body[0]
        assert isinstance(first, ast.Expr), f"{node.name} needs a docstring"
        text = ast.get_source_segment(self.text, first)
        assert text is not None
        return self.words(text)

    def words(self, text: str) -> str:
        if self.blocking:
            for pattern, word in PLAIN_WORDS:
                text = re.sub(pattern, word, text)
        return text


def signature(output: Output, arguments: ast.arguments) -> tuple[str, list[str]]:
    """Parameters as they are declared, and as they are passed on."""
    for argument in (*arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            output.expression(argument.annotation)
    for default in (*arguments.defaults, *arguments.kw_defaults):
        if default is not None:
            output.expression(default)
    passed = [passing(output, argument) for argument in arguments.args[1:]]
    passed += [f"{a.arg}={passing(output, a)}" for a in arguments.kwonlyargs]
    return ast.unparse(arguments), passed


def passing(output: Output, argument: ast.arg) -> str:
    wrap = argument.annotation and CALLBACKS.get(ast.unparse(argument.annotation))
    return f"self._bridge.{wrap}({argument.arg})" if wrap else argument.arg


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def write_method(
    output: Output, node: ast.FunctionDef | ast.AsyncFunctionDef, *, quick: bool = False
) -> str:
    """Write one method that forwards, a ``quick`` one by the bridge's method of its name."""
    assert node.returns is not None
    declared, passed = signature(output, node.args)
    returns = output.expression(node.returns)
    opened = re.fullmatch(r"AbstractAsyncContextManager\[(\w+)\]", returns)
    name, keyword, wait = node.name, "def", ""
    target = f"self._core.{name}"
    call = ", ".join([target, *passed])
    if isinstance(node, ast.AsyncFunctionDef) and not output.blocking:
        keyword, wait = "async def", "await "
    if output.blocking:
        name = ITERATION.get(name, name)
        returns = returns.replace("AbstractAsyncContextManager", "AbstractContextManager")
    if node.name == "__aiter__":
        body = "return self"
    elif node.name == "__anext__" and output.source in GIVEN_BACK_ONE_BY_ONE:
        body = f"return {wait}self._bridge.take(self._core._give_back, self._core.__anext__)"
    elif returns in WRAPPED:
        body = f"return {returns}(self._bridge.run({call}), self._bridge)"
    elif node.name == "__anext__":
        output.helpers.add("give_back_lent")
        output.plain_imports.add("from time import monotonic")
        return NEXT.format(keyword=keyword, name=name, returns=returns, wait=wait)
    elif is_property(node):
        body = f"return {target}"  # what the core publishes whole, for any thread to read
        declared = "self"
    elif opened is not None:
        output.used.add("AbstractContextManager" if output.blocking else "")
        body = f"return self._bridge.open({opened[1]}, {call})"
    elif isinstance(node, ast.AsyncFunctionDef) and node.name in GIVE_BACK:
        helper = GIVE_BACK[node.name]
        output.helpers.add(helper)
        body = f"return {wait}self._bridge.take({helper}(self._core), {call})"
    elif quick:
        body = f"return {wait}self._bridge.{name}({', '.join(['self._core', *passed])})"
    elif isinstance(node, ast.AsyncFunctionDef):
        body = f"return {wait}self._bridge.call({call})"
    else:
        body = f"return self._bridge.run({call})"
    if returns == "None":
        body = body.removeprefix("return ")
    lines = ["@property"] if is_property(node) else []
    lines.append(f"{keyword} {name}({declared}) -> {returns}:")
    if ast.get_docstring(node) is not None:
        lines.append(f"    {output.documentation(node)}")
    lines.append(f"    {body}")
    return "\n".join(lines)


def public_attributes(output: Output, node: ast.ClassDef) -> list[str]:
    """Lines for ``__init__`` that copy what the core's sets under a public name and documents.

    Such attributes never change, so no thread has to ask the core for them.
    """
    written = []
    init = next((n for n in node.body if getattr(n, "name", "") == "__init__"), None)
    if not isinstance(init, ast.FunctionDef):
        return []
    types = {a.arg: a.annotation for a in (*init.args.args, *init.args.kwonlyargs)}
    for statement, following in zip(init.body, init.body[1:], strict=False):
        match statement:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name("self"), attr=name)], value=ast.Name(given)
            ) if not name.startswith("_"):
                kind = types[given]
            case ast.AnnAssign(
                target=ast.Attribute(value=ast.Name("self"), attr=name), annotation=kind
            ) if not name.startswith("_"):
                pass
            case _:
                continue
        assert kind is not None
        assert isinstance(following, ast.Expr), f"{node.name}.{name} needs a docstring"
        text = ast.get_source_segment(output.text, following)
        written.append(f"    self.{name}: {output.expression(kind)} = core.{name}\n    {text}")
    return written


def write_class(output: Output, node: ast.ClassDef) -> None:
    """Write one client: its ``__init__``, and every public method."""
    output.here.add(node.name)
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    output.used.update(bases)
    lines = [f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"]
    is_final = any(isinstance(d, ast.Name) and d.id == "final" for d in node.decorator_list)
    if is_final:
        output.used.add("final")
        lines.insert(0, "@final")
    if "/" in output.source and not is_final:
        owner, _ = OWNERS[output.source.partition("/")[0]]
        members = [f"_core: {owner}\n_bridge: Bridge"]  # of the class that has it as base
    else:
        is_derived = "/" not in output.source and bool(bases)
        body = ["    super().__init__(core, bridge)"] if is_derived else []
        kind = f": _core.{node.name}" if is_derived else ""
        body.append(f"    self._core{kind} = core")
        if not is_derived:
            body.append("    self._bridge = bridge")
        init = f"def __init__(self, core: _core.{node.name}, bridge: Bridge) -> None:"
        members = ["\n".join([init, *body, *public_attributes(output, node)])]
        if any(getattr(statement, "name", "") == "__repr__" for statement in node.body):
            members.append("def __repr__(self) -> str:\n    return repr(self._core)")
        if node.name in CLOSED_BY_CALL and not is_derived:
            members.append(CLOSE[output.blocking])
    lines.append(f"    {output.documentation(node)}")
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not statement.name.startswith("_") or statement.name in ITERATION
        ):
            quick = (node.name, statement.name) in QUICK
            members.append(write_method(output, statement, quick=quick))
    output.body.append("\n".join(lines) + "\n\n" + "\n\n".join(map(indent, members)))


def write_function(output: Output, node: ast.AsyncFunctionDef) -> None:
    """Write a function that takes a client first."""
    output.here.add(node.name)
    declared, passed = signature(output, node.args)
    assert node.returns is not None
    client = node.args.args[0].arg
    wait = "" if output.blocking else "await "
    call = ", ".join([f"_core.{node.name}", f"{client}._core", *passed])
    output.body.append(
        f"{'' if output.blocking else 'async '}def {node.name}({declared})"
        f" -> {output.expression(node.returns)}:\n"
        f"    {output.documentation(node)}\n"
        f"    return {wait}{client}._bridge.call({call})"
    )


def write_listener(output: Output, node: ast.ClassDef) -> None:
    """Write a listener whose functions are plain, and its likeness for the core."""
    output.here.add(node.name)
    output.used.update({"dataclass"})
    lines = [
        "@dataclass(frozen=True, slots=True)",
        f"class {node.name}:",
        f"    {output.documentation(node)}\n",
    ]
    fields = []
    for statement in node.body[1:]:
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(statement.target, ast.Name)
            output.expression(statement.annotation)
            if statement.value is not None:
                output.expression(statement.value)
            fields.append(statement.target.id)
            lines.append(f"    {ast.unparse(statement)}")
        elif isinstance(statement, ast.Expr):
            text = ast.get_source_segment(output.text, statement)
            assert text is not None
            lines.append(f"    {output.words(text)}")
    output.used.update({"CoreHandle", "check_plain", "no_handle"})
    if "store" in fields:
        output.used.add("CoreStore")
    arguments = ", ".join("handle=handle" if f == "handle" else f"{f}=self.{f}" for f in fields)
    declared = "handle: CoreHandle"
    if "store" in fields:
        arguments = arguments.replace("store=self.store", "store=store")
        declared += ", store: CoreStore | None"
    lines.append(
        "\n    def __post_init__(self) -> None:\n"
        "        check_plain(self.handle, 'the listener')\n"
        "        self.for_core(no_handle" + (", None" if "store" in fields else "") + ")"
    )
    lines.append(
        f"\n    def for_core(self, {declared}) -> _core.{node.name}:\n"
        f'        """Return this listener for the core, with functions that forward to these."""\n'
        f"        return _core.{node.name}({arguments})"
    )
    output.body.append("\n".join(lines))


def indent(text: str) -> str:
    """Indent code; the lines of its docstrings are where they belong already."""
    lines, inside = [], False
    for line in text.split("\n"):
        lines.append(line if inside or not line else "    " + line)
        if line.count('"""') % 2:
            inside = not inside
    return "\n".join(lines)


def imports(output: Output) -> list[str]:
    """Return the imports of the names that were used: as in the core's module, or from a face of
    it."""
    lines = ["from ._bridge import Bridge" if output.up == ".." else "from .._bridge import Bridge"]
    module = output.source.removesuffix(".py").replace("/", ".")
    wanted = {name for name in output.used if name} - output.here
    for name in sorted(wanted & PLAIN_TYPES) if output.blocking else ():
        lines.append(f"from ._callables import {name}")
        wanted.discard(name)
    for name in sorted(wanted & set(HOMES)):
        lines.append(f"from .{HOMES[name]} import {name}")
        wanted.discard(name)
    for name, line in LISTENER_IMPORTS.items():
        if name in wanted:
            lines.append(line)
            wanted.discard(name)
    lines += sorted(output.plain_imports)
    if output.helpers:
        lines.append(f"from {output.up}faces._give_back import {', '.join(sorted(output.helpers))}")
    if "AbstractContextManager" in wanted:
        lines.append("from contextlib import AbstractContextManager")
        wanted -= {"AbstractContextManager", "AbstractAsyncContextManager"}
    for statement in output.tree.body:
        match statement:
            case ast.ImportFrom(module=origin, names=names, level=level):
                for alias in names:
                    if (alias.asname or alias.name) in wanted:
                        lines.append(import_of(output, level, origin or "", alias.name))
                        wanted.discard(alias.name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if name in wanted:
                lines.append(f"from {output.up}{module} import {name}")
                wanted.discard(name)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)) if (
                name in wanted
            ):
                lines.append(f"from {output.up}{module} import {name}")
                wanted.discard(name)
    unknown = wanted - set(dir(__builtins__))
    assert not unknown, f"{output.source}: where do {sorted(unknown)} come from?"
    return lines


def import_of(output: Output, level: int, origin: str, name: str) -> str:
    if level == 0:
        return f"from {origin} import {name}"
    folders = Path(output.source).parent.parts
    package = ".".join(folders[: len(folders) + 1 - level])
    return f"from {output.up}{package}{'.' if package else ''}{origin} import {name}"


def write_module(face: str, sources: Mapping[str, Sequence[str]]) -> str:
    """Return the text of one module of a face, not formatted yet."""
    here = {name for names in sources.values() for name in names}
    lines, bodies = [], []
    for source, names in sources.items():
        text = (SDK / source).read_text()
        output = Output(face, source, ast.parse(text), text, here=here)
        for statement in output.tree.body:
            if getattr(statement, "name", "") not in names:
                continue
            if isinstance(statement, ast.AsyncFunctionDef):
                write_function(output, statement)
            elif isinstance(statement, ast.ClassDef) and sources is LISTENERS:
                write_listener(output, statement)
            elif isinstance(statement, ast.ClassDef):
                write_class(output, statement)
        package, _, name = source.removesuffix(".py").replace("/", ".").rpartition(".")
        core = f"_core{name}" if len(sources) > 1 else "_core"
        lines.append(f"from {output.up}{package} import {name} as {core}")
        folder = source.partition("/")[0]
        owner, home = OWNERS.get(folder, ("", ""))
        if owner and any(f"_core: {owner}\n" in body for body in output.body):
            lines.append(f"from {output.up}{folder}.{home} import {owner}")
        lines += imports(output)
        bodies += [re.sub(r"(?<!\.)\b_core\.", f"{core}.", body) for body in output.body]
    return "\n".join([header(common_package(sources)), *lines, *bodies])


def common_package(sources: Iterable[str]) -> str:
    """Return the module, or the package, that all of ``sources`` are in."""
    path = os.path.commonpath(sources).removesuffix(".py")
    return ".".join(["lanemq.sdk", *path.split("/")]).rstrip(".")


def write_settings() -> str:
    """Types of the single options that ``open_…`` functions take by keyword."""
    fields: dict[str, list[str]] = {}
    bases: dict[str, str] = {}
    imports: list[str] = []
    for source in ("net/_remoting.py", "_options.py"):
        text = (SDK / source).read_text()
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.ImportFrom | ast.Import) and source == "_options.py":
                if isinstance(statement, ast.ImportFrom) and statement.level:
                    statement.level += 1
                imports.append(ast.unparse(statement))
            elif isinstance(statement, ast.ClassDef) and statement.name in SETTINGS:
                bases[statement.name] = ast.unparse(statement.bases[0]) if statement.bases else ""
                fields[statement.name] = [
                    f"    {s.target.id}: {ast.unparse(s.annotation)}"
                    for s in statement.body
                    if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
                ]
    bases["ClientOptions"] = "RemotingOptions"
    bases["ProducerOptions"] = bases["ConsumerOptions"] = "ClientOptions"
    lines = [header("the options of lanemq.sdk"), "from typing import TypedDict", *imports]
    lines.append("from .._options import ClientOptions, Compression, ConsumeFrom")
    for name, written in SETTINGS.items():
        base = SETTINGS.get(bases[name], "TypedDict")
        lines.append(f"class {written}({base}, total=False):")
        lines.append(f'    """The fields of `{name}`, as keywords."""\n')
        lines += fields[name]
    return "\n".join(lines)


def header(source: str) -> str:
    return f'"""Generated from {source} by sdk/tools/generate_faces.py."""'


def write_package(face: str, folder: str) -> str:
    """Return the ``__init__`` of a face: the names of the core's package, its own where it has
    them."""
    tree = ast.parse((SDK / folder / "__init__.py").read_text())
    up = "..." if folder else ".."
    lines, names = [PACKAGE_DOCUMENTATION[face, folder]], []
    for statement in tree.body:
        if not isinstance(statement, ast.ImportFrom):
            continue
        own = f"{folder}." if folder and statement.level == 1 else ""
        origin = f"{up}{own}" if statement.level else ""
        for alias in statement.names:
            if alias.name in TRIO_ONLY:
                continue
            names.append(alias.name)
            home = OWN[face].get(alias.name)
            source = f"{origin}{statement.module}" if home is None else f".{home}"
            lines.append(f"from {source} import {alias.name}")
    if not folder:  # what opens any client of the face
        names.append("Opening")
        lines.append("from ._bridge import Opening")
    lines.append(f"__all__ = {sorted(names)!r}")
    return "\n".join(lines)


def ruff(*arguments: str, text: str, path: Path) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def generated() -> dict[Path, str]:
    """Return every module that is written, by its path."""
    texts = {
        SDK / face / written: write_module(face, sources)
        for face in FACES
        for written, sources in CLIENTS.items()
    }
    texts[SDK / "blocking" / "_listeners.py"] = write_module("blocking", LISTENERS)
    texts[SDK / "opening" / "_setting_types.py"] = write_settings()
    for face, folder in PACKAGE_DOCUMENTATION:
        texts[SDK / face / folder / "__init__.py"] = write_package(face, folder)
    for path, text in texts.items():
        rules = "I,RUF022" if path.name == "__init__.py" else "I,F401"
        sorted_text = ruff("check", "--quiet", "--fix", "--select", rules, text=text, path=path)
        texts[path] = ruff("format", "--quiet", text=sorted_text, path=path)
    return texts


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    stale = []
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(SDK)))
            if not check:
                path.write_text(text)
    if stale:
        print("not as they would be written:" if check else "written:", *stale)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
