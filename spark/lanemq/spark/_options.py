"""Options of a source: declared once, checked as a whole.

Spark hands them over with names in lower case.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from ._errors import OptionInvalid

DURATION: Final = re.compile(r"([0-9]{1,9})\s*(ms|s|m|h|d)?")
UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
TRUE_OR_FALSE: Final = ("true", "false")
PUSH_FILTERS: Final = "pushFilters"
"""The option of a DataFrame that takes Spark's filters into its scan.

Spark keeps what a source planned for the last scan of a DataFrame, and takes it for every other
scan of it. Filters of one place of a query would count in another: no DataFrame takes them unless
it says so.
"""
SPARKS_OWN: Final = frozenset(
    {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"}
)
"""Properties of a table that Spark's catalogs give a source together with its options."""
SPARKS_PREFIX: Final = "option."
"""The prefix under which Spark's catalogs keep a table's options, which they give as well."""


class Option(NamedTuple):
    """An option: its name as users write it, its default, the values it takes where they are
    few."""

    name: str
    default: str | None = None
    values: tuple[str, ...] = ()


@final
class Options:
    """The options given to a source of the name ``source``."""

    def __init__(
        self,
        source: str,
        declared: Sequence[Option],
        given: Mapping[str, str],
        *,
        others: Sequence[Option] = (),
    ) -> None:
        """Take the options given.

        ``others`` are passed over: a table that is read and written has the options of both
        directions. Raises ``OptionInvalid``.
        """
        self._source = source
        self._declared = {option.name.lower(): option for option in declared}
        self._given = {name.lower(): value for name, value in given.items()}
        passed_over = SPARKS_OWN | {option.name.lower() for option in others}
        for name in given:
            folded = name.lower()
            if folded in passed_over or folded.startswith(SPARKS_PREFIX):
                continue
            if folded not in self._declared:
                known = ", ".join(sorted(option.name for option in declared))
                raise OptionInvalid(f"{source} has no option {name!r}; its options are {known}")
        for option in declared:
            self._check(option)

    def _check(self, option: Option) -> None:
        value = self._given.get(option.name.lower())
        if value is not None and option.values:
            folded = {one.lower() for one in option.values}
            if value.lower() not in folded:
                known = ", ".join(option.values)
                raise self.wrong(option.name, f"it takes {known}")

    def wrong(self, name: str, why: str) -> OptionInvalid:
        """Make the error for the value of an option."""
        return OptionInvalid(f"{self._source}: option {name}={self.get(name)!r}: {why}")

    def get(self, name: str) -> str | None:
        """Return the value of an option, or its default."""
        return self._given.get(name.lower(), self._declared[name.lower()].default)

    def is_given(self, name: str) -> bool:
        """Return whether an option was given, with more than nothing as its value."""
        return bool(self._given.get(name.lower()))

    def text(self, name: str) -> str:
        """Return the value of an option that must be there."""
        value = self.get(name)
        if not value:
            raise OptionInvalid(f"{self._source} needs the option {name}")
        return value

    def choice(self, name: str) -> str:
        """Return the value of an option that takes one of a declared set of values."""
        value = self.text(name).lower()
        return next(one for one in self._declared[name.lower()].values if one.lower() == value)

    def flag(self, name: str) -> bool:
        """Return the value of an option of ``true`` and ``false``."""
        return self.choice(name) == "true"

    def number(self, name: str, *, least: int = 0) -> int | None:
        """Return an option's number of ``least`` or more; None where it is not given."""
        value = self.get(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise self.wrong(name, f"it takes a whole number of {least} or more")
        return number

    def duration_s(self, name: str) -> float:
        """Return an option's time in seconds: a number with ``ms``, ``s``, ``m``, ``h`` or ``d``,
        and without a unit of milliseconds."""
        match = DURATION.fullmatch(self.text(name).strip().lower())
        if match is None:
            raise self.wrong(name, "it takes a time as 500ms, 30s, 15m, 2h or 1d")
        return float(match[1]) * UNITS_S[match[2] or "ms"]

    def listed(self, name: str) -> list[str]:
        """Return what an option lists with commas between; none where it is not given."""
        return [one.strip() for one in (self.get(name) or "").split(",") if one.strip()]
