"""Access control of a broker's ports: accounts, what they may do, and the check of each request."""

from ._access_settings import AccessSettings
from ._control import AccessControl, AccountControl
from ._files import AccountFiles
from ._requests import register

__all__ = ["AccessControl", "AccessSettings", "AccountControl", "AccountFiles", "register"]
