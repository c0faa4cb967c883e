"""A store that no process has on a disk of its own: in objects behind HTTP, as at S3."""

import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from lanemq.testkit.spark import require_packages

require_packages("plotly")

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.jobs import export, report, verify  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
BUCKET: Final = "archive"
SECRET: Final = "not-for-eyes"
STORE: Final = "file-5.3.3-clean"


class Objects(BaseHTTPRequestHandler):
    """The part of S3 that a reader needs: lists of objects, their sizes, and ranges of them."""

    protocol_version = "HTTP/1.1"
    root: ClassVar[Path]
    """Its files are the objects of the bucket."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        path = self.root / key
        if "list-type" in asked:
            self._answer(200, self._listed(asked["prefix"][0]).encode())
        elif not key:
            self._answer(200, b"")
        elif not path.is_file():
            self._answer(404, b"")
        elif (wanted := self.headers.get("Range")) is None:
            self._answer(200, path.read_bytes())
        else:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            self._answer(206, path.read_bytes()[int(first) : int(last) + 1])

    def _listed(self, prefix: str) -> str:
        """The objects and directories right below a prefix, which ends with a slash."""
        folder = self.root / prefix
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        files = "".join(
            f"<Contents><Key>{escape(prefix + one.name)}</Key><Size>{one.stat().st_size}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for one in entries
            if one.is_file()
        )
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + one.name)}/</Prefix></CommonPrefixes>"
            for one in entries
            if one.is_dir()
        )
        return (
            '<?xml version="1.0"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><KeyCount>{len(entries)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{files}{folders}</ListBucketResult>"
        )

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


@pytest.fixture
def bucket(recorded_stores: Path, tmp_path: Path) -> Iterator[str]:
    """The options, in a URI, of a file system with a bucket that has a recorded store."""
    root = tmp_path / "objects"
    shutil.copytree(recorded_stores / STORE, root / STORE)
    kind = type("Bucket", (Objects,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_tasks_and_jobs_read_objects_as_they_read_files(
    spark: "SparkSession",
    recorded_stores: Path,
    expected_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    bucket: str,
) -> None:
    here = str(recorded_stores / STORE)
    there = f"s3://reader:{SECRET}@{BUCKET}/{STORE}{bucket}"

    def rows(place: str, table: str) -> list[str]:
        reader = spark.read.format("rocketmq-store").options(table=table, splitBytes="262144")
        return sorted(map(str, reader.load(place).collect()))

    for table in ("messages", "consume_queue", "offsets"):
        found = rows(there, table)
        assert found
        assert found == rows(here, table), table
    sound = verify(spark, there)
    assert sound.is_sound
    assert sound.store == f"s3://{BUCKET}/{STORE}"
    assert sound.records == expected_of(STORE)["commitLogWalk"]["records"]
    done = export(spark, there, str(tmp_path / "out"))
    assert done.rows == sound.records
    page = tmp_path / "page.html"
    report(spark, there, page.as_uri())
    assert SECRET not in page.read_text()
    with pytest.raises(SourceError, match="is not a store: it has no commitlog") as caught:
        verify(spark, there.replace(STORE, "nothing"))
    assert SECRET not in str(caught.value)
