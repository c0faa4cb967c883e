"""The commands for the calls that texts of the store name.

Errors, findings and notes say what may be done as a library has it: the name of a call of
``lanemq.storage.tools`` or ``lanemq.storage.bulk``, or of an argument, between backticks.
"""

from pathlib import Path
from typing import Final

from lanemq.local.cli import as_given

COMMANDS: Final = {
    "convert_to_files": "`lanemq store convert {root} --to files`",
    "convert_to_rocksdb": "`lanemq store convert {root} --to rocksdb`",
    "diff_store": "`lanemq store diff-consume-queue {root}`",
    "export_in_place": "`lanemq store export-metadata {root} --in-place`",
    "export_in_place(overwrite=True)": "`lanemq store export-metadata {root} --in-place --from"
    " rocksdb`",
    "inspect_store": "`lanemq store inspect {root}`",
    "open_dump(source='log')": "`lanemq store dump {root} --from-log`",
    "repair_store": "`lanemq store repair {root}`",
    "repair_store(settings=...)": "`lanemq store repair {root} -c FILE`",
    "verify_store": "`lanemq store verify {root}`",
    "write_tables": "`lanemq store export-metadata {root} --output DIR`",
    "resetOffsetByTime": "`lanemq admin resetOffsetByTime`",
    "commit_log": "--commit-log",
    "from_rocksdb": "--from json or --from rocksdb",
    "settings": "-c FILE",
}
"""Text between backticks -> what the command line writes instead."""


def in_commands(text: str, root: Path | str | None = None) -> str:
    """Return a text of the store with its calls as commands, for the store in ``root``."""
    place = str(root or "DIR")
    return as_given(text, {call: text.replace("{root}", place) for call, text in COMMANDS.items()})
