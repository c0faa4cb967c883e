"""An archive as a table of Delta Lake: a run is one transaction of its log.

The commit that adds a run's files holds the state of the archive. Nobody else's commit does, so
the state is that of the last commit which has one.
"""

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote

from pyspark.sql.types import StructType

from .._errors import SourceError
from .._uris import SCHEME, below, shown
from ..store import StoreFiles, open_file_system
from ._commits import Commits
from ._files import ArchiveFiles, require_vacant
from ._state import PARTITIONED, ArchivedQueue, Span, WrittenFile
from ._tables import (
    ATTEMPTS,
    STATE,
    TableState,
    check_columns,
    check_file,
    grown,
    parse_state,
    partition_of,
    require_package,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
KEPT_LOG: Final = {"delta.enableExpiredLogCleanup": "false"}
"""Properties of a new table: commits of years ago may be the last that hold a state."""
UNREADABLE: Final = {"columnMapping", "deletionVectors"}
"""Features of tables whose files are not what Spark's reader of Parquet takes them for."""
MILLISECOND: Final = timedelta(milliseconds=1)
STATISTICS: Final = ("INT32", "INT64")
"""Types of Parquet whose bounds are written to the log; those of texts would be cut there."""


def is_delta(path: str) -> bool:
    """Return whether a directory is a table of Delta Lake."""
    return StoreFiles(path).is_directory(LOG)


@final
class DeltaArchive:
    """The table in a directory, which a path or URI names."""

    holds_partitions: Final = False

    def __init__(self, root: str) -> None:
        require_package("deltalake", "delta")
        files = StoreFiles(root)
        self.root = open_file_system(root)[1] if files.is_local else root
        if SCHEME in self.root and "?" in self.root:
            raise SourceError(
                f"{shown(root)}: options of a file system are not for tables of Delta Lake; their"
                " library takes them from the environment (AWS_ENDPOINT_URL and the like)"
            )
        self._shown = shown(root)

    def exists(self) -> bool:
        return is_delta(self.root)

    def prepare(self, schema: StructType) -> None:
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        kinds = Schema.from_json(schema.json())  # theirs is Spark's
        if not self.exists():
            if Commits(self.root).exists():
                raise SourceError(f"{self._shown} is an archive of Parquet already")
            require_vacant(self.root, ArchiveFiles(self.root), LOG)
            try:
                DeltaTable.create(
                    self.root, kinds, partition_by=[*PARTITIONED], configuration=KEPT_LOG
                )
            except DeltaError as error:
                if not self.exists():  # else another run has made it in this moment
                    raise SourceError(f"{self._shown}: {error}") from error
        table = self._open()
        if table.metadata().partition_columns != [*PARTITIONED]:
            raise SourceError(
                f"{self._shown}: the table is not partitioned by {' and '.join(PARTITIONED)}"
            )
        check_columns(self._shown, _types(kinds), _types(table.schema()))

    def read(self) -> TableState:
        return self._state(self._open()) if self.exists() else TableState()

    def paths(self) -> list[str]:
        return [below(self.root, path) for path in self._files()]

    def begin(self, run: str) -> TableState:
        """Nothing is announced: what a killed run leaves is no file of the table, and is removed
        by VACUUM."""
        return self.read()

    def commit(
        self,
        run: str,
        files: Iterable[WrittenFile],
        spans: Mapping[ArchivedQueue, list[Span]],
    ) -> None:
        """Add the files in one transaction, which is refused if the table was changed since its
        state was read."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import AddAction, RemoveAction

        now = round(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, partition_of(file), now, True, _statistics(file.footer))
            for file in files
        ]
        for _ in range(ATTEMPTS):
            table = self._open()
            known = self._state(table)
            if known.run == run:
                return  # Spark asks twice
            properties = CommitProperties(
                custom_metadata={STATE: grown(known, run, spans).text()},
                max_commit_retries=0,
                app_transactions=[Transaction(STATE, table.version() + 1)],
            )
            try:
                table.create_write_transaction(
                    actions, "append", table.schema(), [*PARTITIONED], commit_properties=properties
                )
            except CommitFailedError as error:
                failed = error
            except DeltaError as error:
                raise SourceError(f"{self._shown}: {error}") from error
            else:
                return
        raise SourceError(f"{self._shown}: {failed}; nothing was archived. Run the job again")

    def end(self, run: str) -> None:
        ArchiveFiles(self.root).remove_run(run, self._files())

    def _files(self) -> list[str]:
        """Return the paths of the table's files in its directory."""
        if not self.exists():
            return []
        # Whole paths, as file_uris() has them, are encoded above the directory, and not below it.
        paths = [unquote(path) for path in self._open().get_add_actions()["path"].to_pylist()]
        for path in paths:
            check_file(self._shown, path)
        return paths

    def _open(self) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.root)
        except DeltaError as error:
            raise SourceError(f"{self._shown}: {error}") from error
        protocol = table.protocol()
        features = UNREADABLE & set(protocol.reader_features or ())
        if features or protocol.min_reader_version == 2:  # columnMapping, before features had names
            raise SourceError(
                f"{self._shown}: the table uses {', '.join(sorted(features)) or 'columnMapping'},"
                " without which lanemq reads tables of Delta Lake"
            )
        return table

    def _state(self, table: "DeltaTable") -> TableState:
        for count in (1, None):  # mostly the last commit is an archive's
            before: int | None = None
            for commit in table.history(count):
                if before is not None and commit["version"] > before:
                    continue  # RESTORE has taken it back
                if STATE in commit:
                    return parse_state(commit[STATE], commit["version"])
                if commit["operation"] == "RESTORE":
                    before = int(commit["operationParameters"]["version"])
        if table.transaction_version(STATE) is not None:
            raise SourceError(
                f"{self._shown}: the log of the table no longer has the commit that says what is"
                " archived: it was cleaned up. Archive into another directory"
            )
        return TableState()


def _types(schema: Any) -> dict[str, str]:  # noqa: ANN401 - pyarrow publishes no types
    return {field.name: str(field.type) for field in schema.fields}


def _statistics(footer: Any) -> str:  # noqa: ANN401 - pyarrow publishes no types
    """Return what the log says of a file's rows, by which readers leave files out."""
    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number in range(footer.num_columns):
        chunks = [group.column(number) for group in groups]
        name, found = chunks[0].path_in_schema, [chunk.statistics for chunk in chunks]
        if chunks[0].physical_type not in STATISTICS or not all(found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        bounds = [one for one in found if one.has_min_max]
        if bounds:
            least[name] = _bound(min(one.min for one in bounds))
            most[name] = _bound(max(one.max for one in bounds), MILLISECOND)
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": least,
            "maxValues": most,
            "nullCount": nulls,
        }
    )


def _bound(value: Any, up: timedelta = timedelta(0)) -> Any:  # noqa: ANN401 - as Parquet has it
    """Return a bound for JSON; of times, which the log has in milliseconds, the next outside."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC)
        if value.microsecond % 1000:
            value += up
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return value.isoformat() if isinstance(value, date) else value
