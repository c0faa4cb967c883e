"""A broker's configuration file for commands that are no broker."""

from pathlib import Path


def read_broker_file(path: Path) -> dict[str, str]:
    """Return the keys and values of a file, warned of and refused as a broker's start does it.

    A mistake that concerns a start alone, such as a missing certificate, is no fault here.
    Raises ``ConfigInvalid``.
    """
    from lanemq.storage import ConfigInvalid

    from .._settings import ConfigError
    from ..broker import BrokerConfig

    try:
        return BrokerConfig.given_in(path)
    except ConfigError as error:
        raise ConfigInvalid(str(error)) from error
