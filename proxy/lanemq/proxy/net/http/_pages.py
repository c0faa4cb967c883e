"""The pages of the port: ``/healthz``, ``/readyz`` and ``/metrics``."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, final

import trio

from ._exposition import CONTENT_TYPE, Family, render
from ._server import Page, Route

FRESH_S: Final = 1.0
"""Seconds for which the metrics of one scrape serve others, so that nobody can cost more."""
NOT_INSTALLED: Final = b"metrics need prometheus_client: pip install 'lanemq[server]'\n"


@final
class Pages:
    """The pages of one process. ``why_not_ready`` returns "" once clients are served."""

    def __init__(
        self,
        families: Callable[[], Iterable[Family]],
        why_not_ready: Callable[[], str] = lambda: "",
    ) -> None:
        self._families = families
        self._why_not_ready = why_not_ready
        self._rendering = trio.Lock()
        self._kept: tuple[float, list[bytes]] | None = None

    def routes(self) -> Mapping[str, Route]:
        """Return the pages by their paths."""
        return {"/healthz": self.health, "/readyz": self.readiness, "/metrics": self.metrics}

    async def health(self) -> Page:
        """Answer that the loop runs."""
        return Page(HTTPStatus.OK, b"ok\n")

    async def readiness(self) -> Page:
        """Answer whether clients can be served, and why not."""
        reason = self._why_not_ready()
        if reason:
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n".encode())
        return Page(HTTPStatus.OK, b"ready\n")

    async def metrics(self) -> Page:
        """Answer the numbers, at most ``FRESH_S`` old; one scrape at a time makes them."""
        async with self._rendering:
            if self._kept is None or trio.current_time() - self._kept[0] >= FRESH_S:
                try:
                    text = await render(self._families())
                except ModuleNotFoundError:
                    return Page(HTTPStatus.NOT_IMPLEMENTED, NOT_INSTALLED)
                self._kept = trio.current_time(), text
            return Page(HTTPStatus.OK, self._kept[1], CONTENT_TYPE)
