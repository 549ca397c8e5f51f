"""RESP2, binary safe: encoder, incremental reader, a small blocking client.

The reader gives each message together with the exact bytes it came in, which
is what the fault proxy needs to cut, split and replay them.
"""

import re
import socket

# One message of a real server in these tests is far below this.
MESSAGE_MAX = 64 * 1024 * 1024


class ProtocolError(Exception):
    """Bytes that are no RESP2."""


class RedisError(Exception):
    """An error reply. `word` is the first word of the text: WRONGTYPE, …"""

    def __init__(self, text):
        super().__init__(text)
        self.text = text
        # Redis 6.2 puts what a script's command said into its own sentence.
        inner = re.search(r"@user_script:(?:.*:)? -?([A-Z]+) ", text)
        self.word = inner[1] if inner and text.startswith(
            "ERR Error running script") else text.split(" ", 1)[0]

    def __eq__(self, other):
        return isinstance(other, RedisError) and self.text == other.text

    __hash__ = Exception.__hash__


class Simple(bytes):
    """A status reply (+OK), told apart from a bulk string."""


def to_bytes(arg):
    if isinstance(arg, (bytes, bytearray)):
        return bytes(arg)
    return str(arg).encode()


def encode(*args):
    """The bytes of one command."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = to_bytes(arg)
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Reader:
    """Bytes in, (value, raw bytes) out; error replies are RedisError values.

    With inline=True a line that starts with none of the five types is a
    command typed by hand (`PING\\r\\n`), as a server accepts it.
    """

    def __init__(self, inline=False):
        self._buffer = bytearray()
        self._inline = inline

    def feed(self, data):
        self._buffer += data
        if len(self._buffer) > MESSAGE_MAX:
            raise ProtocolError("message too long")

    @property
    def pending(self):
        """Bytes of a message that is not complete yet."""
        return bytes(self._buffer)

    def next(self):
        """The next complete message, or None when bytes are missing."""
        found = self._value(0)
        if found is None:
            return None
        value, end = found
        raw = bytes(self._buffer[:end])
        del self._buffer[:end]
        return value, raw

    def _line(self, at):
        end = self._buffer.find(b"\r\n", at)
        return None if end < 0 else (bytes(self._buffer[at:end]), end + 2)

    def _value(self, at):
        found = self._line(at)
        if found is None:
            return None
        line, at = found
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Simple(rest), at
        if kind == b"-":
            return RedisError(rest.decode("utf-8", "backslashreplace")), at
        if kind not in (b":", b"$", b"*"):
            if self._inline and kind.isalpha():
                return line.split(), at
            raise ProtocolError(f"unknown type {line[:40]!r}")
        try:
            number = int(rest)
        except ValueError:
            raise ProtocolError(f"not a number: {line[:40]!r}") from None
        if kind == b":":
            return number, at
        if number < 0:
            return None_, at
        if kind == b"$":
            return self._bulk(at, number)
        return self._array(at, number)

    def _bulk(self, at, size):
        end = at + size
        if len(self._buffer) < end + 2:
            return None
        if self._buffer[end:end + 2] != b"\r\n":
            raise ProtocolError("bulk string without its end")
        return bytes(self._buffer[at:end]), end + 2

    def _array(self, at, count):
        values = []
        for _ in range(count):
            found = self._value(at)
            if found is None:
                return None
            value, at = found
            values.append(value)
        return values, at


class _Nil:
    """The nil reply inside the reader, where None means "not yet"."""

    def __repr__(self):
        return "nil"

    def __bool__(self):
        return False


None_ = _Nil()


def plain(value):
    """nil becomes None, statuses become bytes; errors stay values."""
    if value is None_:
        return None
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, Simple) else value


class Client:
    """One blocking connection. An error reply is raised as RedisError."""

    def __init__(self, address, timeout=5.0, user=None, password=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._reader = Reader()
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(address)
            if password is not None:
                self.command("AUTH", *([user] if user else []), password)
        except BaseException:
            self._socket.close()
            raise

    def command(self, *args):
        self.send(*args)
        value = self.read()
        if isinstance(value, RedisError):
            raise value
        return value

    def send(self, *args):
        self._socket.sendall(encode(*args))

    def send_raw(self, data):
        self._socket.sendall(data)

    def read(self, timeout=None):
        """The next message (a reply or a push); errors come as values."""
        if timeout is not None:
            self._socket.settimeout(timeout)
        while True:
            found = self._reader.next()
            if found is not None:
                return plain(found[0])
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("closed by the peer")
            self._reader.feed(data)

    def read_raw(self, size=65536, timeout=None):
        """What one recv gives, past the reader: b"" at the end."""
        if timeout is not None:
            self._socket.settimeout(timeout)
        return self._socket.recv(size)

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
