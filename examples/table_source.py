"""A connector: sends each change of a table of SQLite, and keeps its position in the broker.

lanemq serve                       # in another terminal
python examples/table_source.py    # or: table_source.py HOST:PORT of a name server, and a DATABASE

Triggers number the changes of the table ``stock``, in the transactions that make them: that is the
log of the table. However the connector is killed, the next run continues there, on this machine or
another that has the database: no change is left out, and at most the one that was under way is
sent twice. Its number is the message's key, by which a consumer knows it again.
"""

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from lanemq.sdk.blocking import Message, open_producer
from lanemq.sdk.blocking.kv import open_kv_store

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "TableSourceTopic"
ROWS_AT_ONCE = 500
SCHEMA = """
create table if not exists stock (item text primary key, pieces integer not null);
create table if not exists changes (
    number integer primary key autoincrement, kind text not null, item text, pieces integer
);
create trigger if not exists stock_insert after insert on stock begin
    insert into changes (kind, item, pieces) values ('insert', new.item, new.pieces);
end;
create trigger if not exists stock_update after update on stock begin
    insert into changes (kind, item, pieces) values ('update', new.item, new.pieces);
end;
create trigger if not exists stock_delete after delete on stock begin
    insert into changes (kind, item, pieces) values ('delete', old.item, old.pieces);
end;
"""


def send_changes(path: Path) -> int:
    """Send what the table has behind the checkpoint; returns how many changes that was."""
    sent = 0
    with (
        open_kv_store(name_servers=NAME_SERVERS) as store,
        open_producer("table-source", name_servers=NAME_SERVERS) as producer,
        store.leader(f"table-source {path}", ttl_s=15),  # one at a time
        closing(sqlite3.connect(path)) as database,
    ):
        database.executescript(SCHEMA)
        checkpoint = store.checkpoint(f"table-source {path}")
        done = int(checkpoint.load() or b"0")
        while True:
            rows = database.execute(
                "select number, kind, item, pieces from changes where number > ? "
                "order by number limit ?",
                (done, ROWS_AT_ONCE),
            ).fetchall()
            if not rows:
                return sent
            for done, kind, item, pieces in rows:
                body = json.dumps({"kind": kind, "item": item, "pieces": pieces}).encode()
                producer.send(Message(topic=TOPIC, body=body, keys=(str(done),)))
                checkpoint.save(b"%d" % done)
                sent += 1


def main() -> None:
    if len(sys.argv) > 2:
        print(f"{send_changes(Path(sys.argv[2]))} changes are sent")
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "shop.db"
        print(f"{send_changes(path)} changes are sent of a new table")
        with closing(sqlite3.connect(path)) as database, database:
            database.executemany("insert into stock values (?, ?)", [("apples", 9), ("pears", 4)])
            database.execute("update stock set pieces = pieces - 1 where item = 'apples'")
            database.execute("delete from stock where item = 'pears'")
        print(f"{send_changes(path)} changes are sent, then {send_changes(path)} more")


if __name__ == "__main__":
    main()
