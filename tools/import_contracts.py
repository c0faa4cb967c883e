"""Import contracts of this repository that import-linter has no type for; see pyproject.toml."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast, final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

WAY_ON: Final = (
    "Let both sides import what they share from a third module, or hand one to the other as an "
    "argument."
)

Circle = frozenset[str]


class Imports(Protocol):
    """A graph of imports between modules, or between folders."""

    @property
    def modules(self) -> set[str]: ...

    def find_modules_directly_imported_by(self, module: str, /) -> set[str]: ...


class Verdict(NamedTuple):
    """The circles of today beside those that were let through."""

    new: list[Circle]
    """Circles that have a module outside the circle they came from, or came from none."""
    gone: list[str]
    """Modules that are listed, and in no circle any more."""


def find_circles(graph: Imports) -> list[Circle]:
    """Strongly connected components of more than one module, in the order of their first names.

    Imports for type checkers count, and so do those within functions: a circle is a question of
    who has to know whom, not only of what Python can load.
    """
    return sorted(
        (frozenset(found) for found in _components(graph) if len(found) > 1),
        key=min,
    )


def _components(graph: Imports) -> Iterator[list[str]]:
    """Tarjan's algorithm, without recursion."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in sorted(graph.modules):
        if root in index:
            continue
        work = [(root, _imports(graph, root))]
        index[root] = lowest[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            module, rest = work[-1]
            for imported in rest:
                if imported not in index:
                    index[imported] = lowest[imported] = len(index)
                    path.append(imported)
                    on_path.add(imported)
                    work.append((imported, _imports(graph, imported)))
                    break
                if imported in on_path:
                    lowest[module] = min(lowest[module], index[imported])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[module])
                if lowest[module] == index[module]:
                    start = path.index(module)
                    yield path[start:]
                    on_path.difference_update(path[start:])
                    del path[start:]


def _imports(graph: Imports, module: str) -> Iterator[str]:
    return iter(sorted(graph.find_modules_directly_imported_by(module)))


def compare(circles: Sequence[Circle], known: Sequence[Circle]) -> Verdict:
    """Return the circles that no known one contains, and known modules that have left theirs."""
    new = [circle for circle in circles if not any(circle <= other for other in known)]
    inside = frozenset[str]().union(*circles)
    return Verdict(new, sorted(frozenset[str]().union(*known) - inside))


def parse_known(text: str) -> list[Circle]:
    """Circles from a text: one module per line, an empty line between two; ``#`` is a comment."""
    paragraphs = text.split("\n\n")
    circles = [
        frozenset(line for line in paragraph.splitlines() if line and not line.startswith("#"))
        for paragraph in paragraphs
    ]
    return [circle for circle in circles if circle]


def imports_within(graph: ImportGraph, circle: Circle) -> list[str]:
    """The import statements that make a circle, as ``importer -> imported (line n)``."""
    return [
        f"{importer} -> {imported} (line {details[0]['line_number']})"
        for importer in sorted(circle)
        for imported in sorted(graph.find_modules_directly_imported_by(importer) & circle)
        if (details := graph.get_import_details(importer=importer, imported=imported))
    ]


def is_within(module: str, package: str) -> bool:
    """Return whether ``module`` is ``package`` or a module of it."""
    return module == package or module.startswith(package + ".")


def part_of(module: str) -> str:
    """The part that a module belongs to: the second of its names, as in ``lanemq.sdk``."""
    return ".".join(module.split(".")[:2])


def is_private(module: str) -> bool:
    """Return whether a name of ``module`` begins with an underscore."""
    return any(name.startswith("_") and not name.startswith("__") for name in module.split("."))


@final
class NoNewCircles(Contract):
    """Modules do not import each other in a circle, but for those listed in the file ``known``.

    The list only ever gets shorter: a module that is in no circle any more has to leave it.
    """

    known = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        circles = find_circles(graph)
        path = Path(str(self.known))
        verdict = compare(circles, parse_known(path.read_text(encoding="utf-8")))
        output.verbose_print(verbose, f"{len(circles)} circles")
        return ContractCheck(
            kept=not verdict.new and not verdict.gone,
            metadata={
                "new": [(sorted(c), imports_within(graph, c)) for c in verdict.new],
                "gone": verdict.gone,
            },
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        for modules, imports in check.metadata["new"]:
            output.print_error(f"{len(modules)} modules import each other in a circle:")
            for line in imports:
                output.print(f"    {line}")
            output.print(WAY_ON)
        for module in check.metadata["gone"]:
            output.print_error(f"{module} is in no circle any more: take it out of {self.known}.")


class Rooms:
    """The folders of a package and their imports; modules beside them in the package are left out.

    It has what ``find_circles`` asks of a graph.
    """

    def __init__(self, graph: ImportGraph, package: str) -> None:
        self._imports: dict[str, set[str]] = {}
        folders = {module.rpartition(".")[0] for module in graph.modules}
        for module in graph.modules:
            room = self._room(module, folders)
            if not is_within(room, package) or room == package:
                continue
            imported = self._imports.setdefault(room, set())
            for other in graph.find_modules_directly_imported_by(module):
                theirs = self._room(other, folders)
                if is_within(theirs, package) and theirs not in (package, room):
                    imported.add(theirs)
        self.modules = set(self._imports)

    @staticmethod
    def _room(module: str, folders: set[str]) -> str:
        return module if module in folders else module.rpartition(".")[0]

    def find_modules_directly_imported_by(self, room: str) -> set[str]:
        return self._imports.get(room, set())


@final
class NoRoomCircles(Contract):
    """Folders of ``package`` do not import each other in a circle."""

    package = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        circles = find_circles(Rooms(graph, str(self.package)))
        return ContractCheck(kept=not circles, metadata={"circles": [sorted(c) for c in circles]})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for rooms in check.metadata["circles"]:
            output.print_error("folders import each other in a circle: " + ", ".join(rooms))
        output.print("Move a module to the folder that it belongs to by its imports.")


@final
class NotImported(Contract):
    """Nothing outside of ``package`` imports it; it need not be installed."""

    package = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        name = str(self.package)
        importers = sorted(
            f"{importer} -> {module}"
            for module in graph.modules
            if is_within(module, name)
            for importer in graph.find_modules_that_directly_import(module)
            if not is_within(importer, name)
        )
        return ContractCheck(kept=not importers, metadata={"importers": importers})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error(f"{self.package} is not part of the wheel, and is imported:")
        for line in check.metadata["importers"]:
            output.print(f"    {line}")


@final
class NoForeignPrivates(Contract):
    """No part imports a private module of another; those in ``allowed``, for tests, may."""

    allowed = fields.SetField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        allowed = set(cast("Iterable[str]", self.allowed))
        imports = sorted(
            f"{importer} -> {module}"
            for module in graph.modules
            if is_private(module)
            for importer in graph.find_modules_that_directly_import(module)
            if module.split(".")[0] == importer.split(".")[0]  # and not of another project
            and part_of(importer) not in {part_of(module), *allowed}
        )
        return ContractCheck(kept=not imports, metadata={"imports": imports})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error("private modules of another part are imported:")
        for line in check.metadata["imports"]:
            output.print(f"    {line}")
        output.print("Export what is needed from a public module of that part.")
