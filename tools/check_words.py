"""Finds words of our own making that the field has a term for, so that none of them comes back.

``python tools/check_words.py`` reads the names of modules, classes, functions and attributes, and
the text of code and pages. Words of our own that have to be stand in docs/glossary.md. A word that
has an owner names one class of the product, and no other. Texts below the command line name none
of its commands: which command helps is for the command line to say.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final = ("wire", "storage", "proxy", "sdk", "spark", "compat_tests", "bench", "testkit")
PRODUCT: Final = ("wire", "storage", "proxy", "sdk", "spark")
OWN_TEST: Final = "test_words.py"
NAMES: Final = {
    "Crew": "WorkerPool",
    "Elsewhere": "what is there, such as MovedSends",
    "Errand": "Call",
    "Lane": "QueueConsumer",
    "Place": "QueuePosition, or the kind of address",
    "Taker": "ResponseFuture",
    "bury": "dead_letter",
    "let_go_of": "release",
    "strike": "remove",
}
"""Maps names, as they are but for underscores around and an s behind, to what to write instead."""
PHRASES: Final = {
    "anew": "again",
    "crew": "worker pool",
    "errand": "call",
    "go on at": "continue at",
    "goes on at": "continues at",
    "let go of": "release, give up",
    "mend": "fix",
    "mended": "fixed",
    "taker": "receiver, or who it is",
}
OWNERS: Final = {
    "Chain": "wire/lanemq/wire/logical/_chain.py",
    "CommitTo": "wire/lanemq/wire/logical/_commit_to.py",
    "LogicalProgress": "proxy/lanemq/proxy/broker/logical/state/_progress.py",
    "LogicalQueues": "wire/lanemq/wire/logical/_queues.py",
    "LogicalRoutes": "proxy/lanemq/proxy/logical/listener/brokers/_routes.py",
    "Progress": "storage/lanemq/storage/tools/checks/_findings.py",
    "ProgressSearch": "wire/lanemq/wire/logical/_progress_search.py",
    "PullFrom": "wire/lanemq/wire/logical/_pull_from.py",
    "PullRequest": "proxy/lanemq/proxy/sessions/values/_pull_request.py",
    "RequestSpec": "wire/lanemq/wire/requests/_spec.py",
    "SearchByTime": "wire/lanemq/wire/logical/_search_by_time.py",
    "Segment": "wire/lanemq/wire/logical/_segment.py",
    "SegmentBroker": "proxy/lanemq/proxy/logical/listener/brokers/_broker.py",
    "SendTo": "wire/lanemq/wire/logical/_send_to.py",
    "TopicMapping": "proxy/lanemq/proxy/logical/rules/_mapping.py",
    "TopicView": "proxy/lanemq/proxy/logical/listener/brokers/_views.py",
    "Verdict": "storage/lanemq/storage/derive/_compare.py",
}
"""Class or alias -> the one module of the product that may define it."""
COMMAND: Final = re.compile(
    r"`lanemq +[a-z]+|\blanemq +(?:admin|bench|compat|kv|namesrv|serve|spark|store)\b"
)
"""A command in a text. Without quotes, "a lanemq broker" and "a lanemq proxy" are servers."""


def advised_commands(path: str, tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Iterate over commands in strings of a module below the command line, as ``coined_names``."""
    if not {"cli", "cli.py", "__main__.py"}.isdisjoint(path.split("/")):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for found in COMMAND.finditer(node.value):
                line = node.lineno + node.value.count("\n", 0, found.start())
                yield line, found[0], "what is wrong or a call; the advice is the command line's"


NO_LONGER: Final = re.compile(r"\b(?:can)?not\b[^.;:()\"]{0,90}?\bany[\s#]+more\b", re.IGNORECASE)


def second_owners(path: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Iterate over definitions of a module whose words have another owner, as ``coined_names``."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=[*targets]):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                continue
        for name in names:
            if (owner := OWNERS.get(name, path)) != path:
                yield node.lineno, name, f"another name: it is that of {owner}"


def coined_names(stem: str, tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Iterate over such names of a module and in it: line, name, what to write instead."""
    names = [(1, stem), (1, stem.strip("_").title())]
    for node in ast.walk(tree):
        for kind in ("name", "attr", "id", "arg"):
            if isinstance(name := getattr(node, kind, None), str):
                names.append((getattr(node, "lineno", 1), name))
    for line, name in names:
        plain = name.strip("_")
        if instead := NAMES.get(plain) or NAMES.get(plain.removesuffix("s")):
            yield line, name, instead


def coined_phrases(text: str) -> Iterator[tuple[int, str, str]]:
    """Iterate over such phrases of a text, also over two lines of it, as ``coined_names``."""
    for phrase, instead in PHRASES.items():
        pattern = r"\b" + phrase.replace(" ", r"[\s#]+") + r"s?\b"
        for found in re.finditer(pattern, text, re.IGNORECASE):
            yield text.count("\n", 0, found.start()) + 1, phrase, instead
    for found in NO_LONGER.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0], "no longer"


def main() -> None:
    """Exit with 1 where there is one."""
    code = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    is_fine = True
    for path in sorted([*code, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        if path.name == OWN_TEST:
            continue
        text = path.read_text(encoding="utf-8")
        found = list(coined_phrases(text))
        if path.suffix == ".py":
            tree, name = ast.parse(text), path.relative_to(ROOT).as_posix()
            found += coined_names(path.stem, tree)
            if name.split("/")[1:2] == ["lanemq"] and name.split("/")[0] in PRODUCT:
                found += second_owners(name, tree)
                found += advised_commands(name, tree)
        for line, word, instead in found:
            is_fine = False
            print(f"{path.relative_to(ROOT)}:{line}: instead of {word!r} write {instead}")
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
