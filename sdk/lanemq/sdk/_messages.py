"""Messages as applications see them."""

from ._message import NO_PROPERTIES as NO_PROPERTIES
from ._message import Message as Message
from ._message import SendResult as SendResult
from ._message import SendStatus as SendStatus
from ._outcomes import DELAY_LEVEL_MAX as DELAY_LEVEL_MAX
from ._outcomes import Outcome as Outcome
from ._outcomes import Retry as Retry
from ._outcomes import is_success as is_success
from ._received import BODY_BYTES_MAX as BODY_BYTES_MAX
from ._received import SYSTEM_PROPERTIES as SYSTEM_PROPERTIES
from ._received import ReceivedMessage as ReceivedMessage
