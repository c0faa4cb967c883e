"""An archive as a table of Iceberg: a run is one snapshot of it, in a catalog that the user names.

The snapshot that adds a run's files holds the state of the archive in its summary. Snapshots
expire, so the table's properties hold it, too, from the same commit.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, final

from pyspark.sql.types import StructType

from .._errors import SourceError
from .._uris import ICEBERG, below
from ._files import ArchiveFiles
from ._state import PARTITIONED, ArchivedQueue, Span, WrittenFile
from ._tables import (
    ATTEMPTS,
    STATE,
    TableState,
    check_columns,
    check_file,
    grown,
    parse_state,
    require_package,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

SEQUENCE: Final = f"{STATE}.sequence"
"""The property with the sequence number of the snapshot whose state the properties hold."""
FORMAT: Final = 2
"""The first version of the format whose snapshots have sequence numbers."""
FIRST_FIELD: Final = 1000
"""The id of the first field of a partition, as every writer of Iceberg has it."""


@final
class IcebergArchive:
    """The table that an address names: ``iceberg://CATALOG/NAMESPACE.TABLE``."""

    holds_partitions: Final = True

    def __init__(self, address: str) -> None:
        require_package("pyiceberg", "iceberg")
        self._address = address
        self._catalog_name, _, name = address.removeprefix(ICEBERG).partition("/")
        *self._namespace, self._name = name.split(".")
        if not self._catalog_name or not self._name or not all(self._namespace):
            raise SourceError(f"{address}: a table of Iceberg is {ICEBERG}CATALOG/NAMESPACE.TABLE")

    @property
    def root(self) -> str:
        with self._catalog() as catalog:
            return _root(self._load(catalog))

    def exists(self) -> bool:
        with self._catalog() as catalog:
            return catalog.table_exists(self._identifier)

    def prepare(self, schema: StructType) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        kinds = _schema(self._address, schema)
        fields = [
            PartitionField(kinds.find_field(name).field_id, number, IdentityTransform(), name)
            for number, name in enumerate(PARTITIONED, FIRST_FIELD)
        ]
        with self._catalog() as catalog:
            if not catalog.table_exists(self._identifier):
                catalog.create_namespace_if_not_exists(tuple(self._namespace))
                with suppress(TableAlreadyExistsError):  # another run made it in this moment
                    catalog.create_table(
                        self._identifier, kinds, partition_spec=PartitionSpec(*fields)
                    )
            table = self._load(catalog)
            if table.metadata.format_version < FORMAT:
                raise SourceError(
                    f"{self._address}: the table is of version 1 of the format: upgrade it to 2"
                )
            partitions = [(one.name, str(one.transform)) for one in table.spec().fields]
            if partitions != [(name, "identity") for name in PARTITIONED]:
                raise SourceError(
                    f"{self._address}: the table is not partitioned by {' and '.join(PARTITIONED)}"
                )
            check_columns(self._address, _types(kinds), _types(table.schema()))

    def read(self) -> TableState:
        with self._catalog() as catalog:
            if not catalog.table_exists(self._identifier):
                return TableState()
            return self._state(self._load(catalog))

    def paths(self) -> list[str]:
        with self._catalog() as catalog:
            if not catalog.table_exists(self._identifier):
                return []
            table = self._load(catalog)
            return [below(_root(table), path) for path in self._files(table)]

    def begin(self, run: str) -> TableState:
        """Nothing is announced: what a killed run leaves is no file of the table."""
        return self.read()

    def commit(
        self,
        run: str,
        files: Iterable[WrittenFile],
        spans: Mapping[ArchivedQueue, list[Span]],
    ) -> None:
        """Add the files in one snapshot, which is refused if the table was changed since its
        state was read."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import TableProperties

        names = [file.path for file in files]
        with self._catalog() as catalog:
            for _ in range(ATTEMPTS):
                table = self._load(catalog)
                known = self._state(table)
                if known.run == run:
                    return  # Spark asks twice
                text = grown(known, run, spans).text()
                # It would add the files again behind a commit that has the same messages. What is
                # changed is this copy of the table's properties.
                table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
                paths = [below(_root(table), name) for name in names]
                try:
                    with table.transaction() as change:
                        number = str(table.metadata.next_sequence_number())
                        change.set_properties({STATE: text, SEQUENCE: number})
                        change.add_files(paths, {STATE: text}, check_duplicate_files=False)
                except CommitFailedException as error:
                    failed = error
                else:
                    return
        raise SourceError(f"{self._address}: {failed}; nothing was archived. Run the job again")

    def end(self, run: str) -> None:
        with self._catalog() as catalog:
            table = self._load(catalog)
            root, files = _root(table), self._files(table)
        ArchiveFiles(root).remove_run(run, files)

    @property
    def _identifier(self) -> tuple[str, ...]:
        return (*self._namespace, self._name)

    @contextmanager
    def _catalog(self) -> "Iterator[Catalog]":
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import RESTError
        from pyiceberg.utils.config import Config

        try:
            # Theirs is read once, when their module is loaded.
            known = Config().get_catalog_config(self._catalog_name) or {}
            catalog = load_catalog(self._catalog_name, **{key: str(known[key]) for key in known})
        except (ValueError, RESTError, OSError) as error:
            raise SourceError(
                f"{self._address}: the catalog {self._catalog_name} cannot be opened: {error}. It"
                f" is configured in .pyiceberg.yaml, or by PYICEBERG_CATALOG__…__URI and"
                " the like, where jobs are started, and before Spark is"
            ) from error
        try:
            yield catalog
        except RESTError as error:
            raise SourceError(f"{self._address}: {error}") from error
        finally:
            catalog.close()

    def _load(self, catalog: "Catalog") -> "Table":
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            raise SourceError(f"{self._address}: there is no such table") from error

    def _state(self, table: "Table") -> TableState:
        """Return the state of the last snapshot that has one, and where those have expired, that
        of the table's properties."""
        snapshot = table.current_snapshot()
        version = 0 if snapshot is None else snapshot.sequence_number or 0
        while snapshot is not None:
            text = None if snapshot.summary is None else snapshot.summary.get(STATE)
            if text is not None:
                return parse_state(text, snapshot.sequence_number or 0)
            before = snapshot.parent_snapshot_id
            snapshot = None if before is None else table.snapshot_by_id(before)
        # A table that was rolled back to before its first archive has no state.
        if version >= int(table.properties.get(SEQUENCE, version + 1)):
            return parse_state(table.properties[STATE], version)
        return TableState()

    def _files(self, table: "Table") -> list[str]:
        """Return the paths of the table's files below its root."""
        root, paths = f"{_root(table)}/", []
        for task in table.scan().plan_files():
            path = task.file.file_path
            if task.delete_files:
                raise SourceError(
                    f"{self._address}: rows of {path.removeprefix(root)} are deleted in files of"
                    " their own, which lanemq does not read: rewrite the table's files"
                )
            name = path.removeprefix(root)
            check_file(self._address, name)
            paths.append(name)
        return paths


def _root(table: "Table") -> str:
    return f"{table.location().rstrip('/')}/data"


def _schema(address: str, schema: StructType) -> "Schema":
    """Return a schema of Spark as one of Iceberg. Raises ``SourceError``."""
    from pyiceberg import types
    from pyiceberg.schema import Schema

    kinds = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "date": types.DateType(),
        "timestamp": types.TimestamptzType(),
        "map<string,string>": types.MapType(
            key_id=len(schema) + 1,
            key_type=types.StringType(),
            value_id=len(schema) + 2,
            value_type=types.StringType(),
            value_required=False,
        ),
    }
    names = {field.name: field.dataType.simpleString() for field in schema}
    if odd := sorted(name for name, kind in names.items() if kind not in kinds):
        raise SourceError(f"{address}: no column of messages has the type of {', '.join(odd)}")
    return Schema(
        *(
            types.NestedField(number, name, kinds[kind], required=False)
            for number, (name, kind) in enumerate(names.items(), 1)
        )
    )


def _types(schema: "Schema") -> dict[str, str]:
    return {field.name: str(field.field_type) for field in schema.fields}
