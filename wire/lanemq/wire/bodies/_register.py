"""The body with which a broker registers at a name server."""

import struct
import zlib
from dataclasses import dataclass, field
from typing import ClassVar, Final

from .. import fastjson
from .._errors import RemoteProtocolError
from .._sys_flags import SysFlag
from ..frame import MAX_FRAME_BYTES
from ..message._compression import decompress_body, unpacked_pieces
from ._body import Body
from ._topics import DataVersion, TopicConfig, TopicConfigWrapper

LENGTH: Final = struct.Struct(">i")
MAPPINGS: Final = "topicQueueMappingInfoMap"
BEST_COMPRESSION: Final = 9
UNPACKED_BYTES_MAX: Final = MAX_FRAME_BYTES
"""Bytes of a registration: what the form that is not compressed can have."""
TOPICS_MAX: Final = 1 << 17
"""Topics of a registration in the compressed form, and mappings; about as many as fit a frame in
the other form."""
SHORT_TEXT_BYTES: Final = 64 << 10
"""The longest version, and the longest list of filter servers, in the compressed form."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerBody(Body):
    """The topics and the filter servers of a broker.

    A broker may send only the topics that changed, so this is never the whole truth.
    Source: RocketMQ 4.9.8 and 5.3.3, RegisterBrokerBody.
    """

    NAMES: ClassVar = {"topic_config_wrapper": "topicConfigSerializeWrapper"}

    topic_config_wrapper: TopicConfigWrapper = field(default_factory=TopicConfigWrapper)
    filter_server_list: tuple[str, ...] = ()

    def encode_compressed(self) -> bytes:
        """Return the compressed form, to be announced by the header's ``compressed``.

        One zlib stream of: data version as JSON, count of topics, each topic in its short form,
        filter servers as JSON; each text after its length in four bytes. The queue mappings of
        5.x follow in the same manner where the wrapper has any.
        """
        wrapper = self.topic_config_wrapper
        parts = [_sized(wrapper.data_version.encode())]
        parts.append(LENGTH.pack(len(wrapper.topic_config_table)))
        parts += [
            _sized(topic.encode_text().encode()) for topic in wrapper.topic_config_table.values()
        ]
        parts.append(_sized(fastjson.dumps(list(self.filter_server_list))))
        mappings = wrapper.extra.get(MAPPINGS)
        if isinstance(mappings, dict):
            parts.append(LENGTH.pack(len(mappings)))
            parts += [_sized(fastjson.dumps(mapping)) for mapping in mappings.values()]
        return zlib.compress(b"".join(parts), BEST_COMPRESSION)

    @staticmethod
    def reading_bytes(
        data: bytes, *, is_compressed: bool, max_bytes: int = UNPACKED_BYTES_MAX
    ) -> int:
        """Return the memory in bytes that it takes, about, to read either form; takes none itself.

        Raises ``RemoteProtocolError`` for more values than are read, for a broken or cut stream,
        and for one that unpacks to more than ``max_bytes``.
        """
        pieces = unpacked_pieces(data, max_bytes=max_bytes) if is_compressed else (data,)
        shape = fastjson.Shape(0, 0, 0)
        for piece in pieces:
            shape = shape.plus(piece)
        shape.check()
        return shape.memory_bytes

    @classmethod
    def decode_compressed(
        cls, data: bytes, *, max_bytes: int = UNPACKED_BYTES_MAX
    ) -> "RegisterBrokerBody":
        """Read the compressed form, of at most ``max_bytes`` when unpacked.

        One that is refused as a whole takes no memory. Raises ``RemoteProtocolError`` as
        ``reading_bytes``, of all its texts together, and for more than ``TOPICS_MAX`` topics.
        """
        cls.reading_bytes(data, is_compressed=True, max_bytes=max_bytes)
        reader = _SizedReader(decompress_body(SysFlag.COMPRESSED, data, max_bytes=max_bytes))
        version = DataVersion.decode(reader.text(SHORT_TEXT_BYTES))
        topics = [TopicConfig.decode_text(reader.text()) for _ in range(reader.count())]
        filter_servers = fastjson.loads(reader.text(SHORT_TEXT_BYTES))
        extra: dict[str, object] = {}
        if not reader.at_end:  # a broker of 5.x
            mappings = [fastjson.loads(reader.text()) for _ in range(reader.count())]
            extra[MAPPINGS] = {
                str(mapping.get("topic")): mapping
                for mapping in mappings
                if isinstance(mapping, dict)
            }
        if not isinstance(filter_servers, list):
            raise RemoteProtocolError("the filter servers of a registration are not an array")
        table = {topic.topic_name: topic for topic in topics}
        return cls(TopicConfigWrapper(table, version, extra), tuple(map(str, filter_servers)))


def _sized(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


class _SizedReader:
    """Reads counts and texts that follow their length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def count(self) -> int:
        """Return a number of items to come, each at least a length; so it cannot exceed the
        rest."""
        value = self._length()
        if value * LENGTH.size > len(self._data) - self._at:
            raise RemoteProtocolError(f"a registration is cut off at byte {self._at}")
        if value > TOPICS_MAX:
            raise RemoteProtocolError(
                f"a registration has {value} topics where {TOPICS_MAX} are the most"
            )
        return value

    def text(self, most_bytes: int = UNPACKED_BYTES_MAX) -> str:
        size_bytes = self._length()
        if size_bytes > most_bytes:
            raise RemoteProtocolError(
                f"a registration has {size_bytes} bytes of its version or its filter servers, "
                f"at most {most_bytes} are read"
            )
        end = size_bytes + self._at
        if end > len(self._data):
            raise RemoteProtocolError(f"a registration is cut off at byte {self._at}")
        try:
            text = self._data[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"a registration has a bad text: {error}") from None
        self._at = end
        return text

    def _length(self) -> int:
        if len(self._data) - self._at < LENGTH.size:
            raise RemoteProtocolError(f"a registration is cut off at byte {self._at}")
        (value,) = LENGTH.unpack_from(self._data, self._at)
        if value < 0:
            raise RemoteProtocolError(f"a registration has a negative length at byte {self._at}")
        self._at += LENGTH.size
        return int(value)
