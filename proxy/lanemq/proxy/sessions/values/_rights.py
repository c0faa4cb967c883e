"""The type of the function by which handlers look up the rights of a request's sender."""

from collections.abc import Callable

from lanemq.wire.frame import Frame

from ...acl import Rights
from ...net._session import Session

RightsOf = Callable[[Frame, Session], Rights]
"""Returns the rights of the sender of a request; see ``BrokerContext.rights``."""
