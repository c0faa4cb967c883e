"""The requests about the settings of a name server.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from typing import final

from lanemq.local import replace_file
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from .._settings import ConfigError, parse_properties
from ..net._dispatch import Handlers
from ..net._session import Session
from ._config import BLOCKED_KEYS, NameServerConfig


@final
class ConfigRequests:
    """The handlers over one configuration."""

    def __init__(self, config: NameServerConfig) -> None:
        self._config = config

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        handlers.add(RequestCode.UPDATE_NAMESRV_CONFIG, self._update)
        handlers.add(RequestCode.GET_NAMESRV_CONFIG, self._get)

    def _update(self, frame: Frame, session: Session) -> Frame:
        try:
            properties = parse_properties(frame.body, source="request")
            if not BLOCKED_KEYS.isdisjoint(properties):
                raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
            changed = self._config.changed(properties)
        except ConfigError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if self._config.config_store_path is not None:
            replace_file(self._config.config_store_path, changed.to_text())
        self._config.adopt(changed)
        return frame.reply()

    def _get(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=self._config.to_text())
