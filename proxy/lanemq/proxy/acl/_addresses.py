"""White lists: patterns of addresses from which requests need no signature.

A pattern is an address whose parts may be ranges: ``10.10.103.*``, ``192.168.1-5.*``,
``1ac3:78b6::1-200:*``; its last part may list several (``10.1.1.{1,2}``), and commas separate
patterns. Every part has to match. (Apache's brokers look at the first range only: to them
``10.1.*.7`` is all of ``10.1``.)

Source: RocketMQ 4.9.8, RemoteAddressStrategyFactory.
"""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, final

_ANYWHERE: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_BRACES: Final = re.compile(r"([^{},]*)\{([^{}]*)\}")
_V4_PARTS: Final = 4
_V6_PARTS: Final = 8
_MAPPED: Final = "::ffff:"
_MAPPED_PARTS: Final = (0, 0, 0, 0, 0, 0xFFFF)
"""The parts before the last two, of an IPv6 address that stands for one of IPv4."""
_HOSTS_REMEMBERED: Final = 4096
ADDRESS_CHARACTERS_MAX: Final = 128
"""Characters of one pattern; the longest has eight ranges of an IPv6 address, 79 characters."""
PATTERNS_MAX: Final = 500
"""Patterns of one text: each is looked at for every new address."""
TEXT_CHARACTERS_MAX: Final = PATTERNS_MAX * ADDRESS_CHARACTERS_MAX
_PART_OF: Final = {
    10: re.compile(r"[0-9]{1,3}", re.ASCII),
    16: re.compile(r"[0-9a-fA-F]{1,4}", re.ASCII),
}

Parts = tuple[int, ...]
"""The parts of an address: four bytes, or eight groups of 16 bits."""


class AddressPattern(NamedTuple):
    """The lowest and the highest value of each part of an address; no parts mean any address."""

    lowest: Parts
    highest: Parts

    def matches(self, parts: Parts) -> bool:
        """Return whether an address of these parts is in the pattern; one of IPv4 is in a pattern
        of the addresses that IPv6 maps it to."""
        if len(parts) == _V4_PARTS and self.lowest[:-2] == self.highest[:-2] == _MAPPED_PARTS:
            parts = (*_MAPPED_PARTS, parts[0] << 8 | parts[1], parts[2] << 8 | parts[3])
        return not self.lowest or (
            len(parts) == len(self.lowest)
            and all(
                low <= part <= high
                for low, part, high in zip(self.lowest, parts, self.highest, strict=True)
            )
        )


ANY_ADDRESS: Final = AddressPattern((), ())


@final
class WhiteList:
    """Addresses that are let in; it remembers its answers for the last 4096 hosts."""

    def __init__(self, patterns: Iterable[AddressPattern] = ()) -> None:
        self.patterns = tuple(patterns)
        self.admits = lru_cache(maxsize=_HOSTS_REMEMBERED)(self._admits)
        """Return whether a host, a literal address, is on the list."""

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def _admits(self, host: str) -> bool:
        parts = _parts_of(host)
        return any(pattern.matches(parts) for pattern in self.patterns)


def parse_patterns(text: str) -> tuple[AddressPattern, ...]:
    """Read the patterns of a text; a blank one has none. Raises ``ValueError``, which says why."""
    text = text.strip()
    if not text:
        return ()
    if text in _ANYWHERE:
        return (ANY_ADDRESS,)
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"{len(text)} characters of addresses, at most {TEXT_CHARACTERS_MAX}")
    count = text.count(",") + 1
    if count > PATTERNS_MAX:
        raise ValueError(f"{count} addresses, at most {PATTERNS_MAX} are taken in one text")
    patterns = _without_braces(text)
    return tuple(_pattern(one.strip()) for one in patterns)


def _without_braces(text: str) -> list[str]:
    braces = _BRACES.fullmatch(text)
    if braces is None:
        return text.split(",")
    return [braces[1] + last.strip() for last in braces[2].split(",")]


def _pattern(text: str) -> AddressPattern:
    if len(text) > ADDRESS_CHARACTERS_MAX:
        raise ValueError(
            f"{text[:ADDRESS_CHARACTERS_MAX]!r}… is no IP address: it has {len(text)} characters"
        )
    mapped = text[len(_MAPPED) :]
    if text.lower().startswith(_MAPPED) and "." in mapped and ":" not in mapped:
        return _pattern(mapped)
    if ":" in text:
        spans = [_span(part, text, base=16, most=0xFFFF) for part in _v6_parts(text)]
    else:
        parts = text.split(".")
        if len(parts) != _V4_PARTS:
            raise ValueError(f"{text!r} is not an IP address: it has {len(parts)} parts, not four")
        spans = [_span(part, text, base=10, most=255) for part in parts]
    return AddressPattern(tuple(low for low, _ in spans), tuple(high for _, high in spans))


def _v6_parts(text: str) -> list[str]:
    """Split an IPv6 pattern; ``::`` stands for zeros, a ``*`` at the end for all that follow."""
    head, gap, tail = text.partition("::")
    parts = head.split(":") if head else []
    last = tail.split(":") if tail else []
    missing = _V6_PARTS - len(parts) - len(last)
    if gap:
        filled = [*parts, *("0" for _ in range(missing)), *last]
    elif parts[-1] == "*":
        filled = [*parts, *("*" for _ in range(missing))]
    else:
        filled = parts
    if len(filled) != _V6_PARTS or (gap and missing < 1):
        raise ValueError(f"{text!r} is not an IPv6 address: it does not have eight parts")
    return filled


def _span(part: str, text: str, *, base: int, most: int) -> tuple[int, int]:
    if part == "*":
        return 0, most
    low, is_range, high = part.partition("-")
    ends = (low, high) if is_range else (low, low)
    if not all(_PART_OF[base].fullmatch(end) for end in ends):
        raise ValueError(f"{part!r} in {text!r} is not a part of an address")
    lowest, highest = int(ends[0], base), int(ends[1], base)
    if not lowest <= highest <= most:
        raise ValueError(
            f"{part!r} in {text!r} is not a range from 0 to {most:{'x' if base == 16 else 'd'}}"
        )
    return lowest, highest


def _parts_of(host: str) -> Parts:
    """Return the parts of a literal address; none for anything else."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ()
    packed = (getattr(address, "ipv4_mapped", None) or address).packed
    if len(packed) == _V4_PARTS:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2]) for at in range(0, len(packed), 2))
