"""Access control of 5.x: users, their policies, and the tools' requests about them."""

from ._control import UserControl
from ._requests import register

__all__ = ["UserControl", "register"]
