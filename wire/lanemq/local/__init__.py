"""Private files: parts that servers, clients and tools share on their own machine."""

from ._files import (
    DIRECTORY_MODE,
    FILE_MODE,
    NotOwnDirectory,
    append_file,
    copy_file,
    create_file,
    create_temporary,
    make_directories,
    own_directory,
    sync_path,
    user_directory,
    user_path,
    write_file,
)
from ._log import get_logger
from ._print import print_block, print_indented, print_json, print_line
from ._replacement import replace_file
from ._suspensions import STEP_S, Suspensions, suspended_s

__all__ = [
    "DIRECTORY_MODE",
    "FILE_MODE",
    "STEP_S",
    "NotOwnDirectory",
    "Suspensions",
    "append_file",
    "copy_file",
    "create_file",
    "create_temporary",
    "get_logger",
    "make_directories",
    "own_directory",
    "print_block",
    "print_indented",
    "print_json",
    "print_line",
    "replace_file",
    "suspended_s",
    "sync_path",
    "user_directory",
    "user_path",
    "write_file",
]
