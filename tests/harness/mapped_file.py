"""A lock file of the store file:, as another program may write into it: where
things are (src/store/file/layout.h), and changes of single numbers."""

import struct

HEAD, UNIT = 4096, 64
FLOOR = 320  # in the head
LOCK = struct.Struct("<IIIIQqqqq")  # size, claims, name_size, sum, hash, token…
BLOCK = 32  # the head of a block
TOKEN_AT, CLAIM_FLOOR_AT, CLAIM_UNTIL_AT = 24, 72, 104
STATE_AT = 6


class MappedFile:
    def __init__(self, path):
        self.path = path

    def read(self):
        with open(self.path, "rb") as file:
            return file.read()

    def write(self, at, data):
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(at)
            assert file.write(data) == len(data)

    def number(self, at, value):
        self.write(at, struct.pack("<Q", value % (1 << 64)))

    def buckets(self, data):
        """(offset, size) of the records of each bucket of locks."""
        slots, roots = struct.unpack_from("<II", data, 12)
        first = HEAD + 256 * slots
        for i in range(roots):
            unit = struct.unpack_from("<Q", data, first + 8 * i)[0] & 0xffffffff
            if unit and UNIT * unit + BLOCK < len(data):
                used = struct.unpack_from("<I", data, UNIT * unit + 16)[0]
                at = UNIT * unit + BLOCK
                yield at, min(used, len(data) - at)

    def locks(self):
        """{name: (offset of its record, offsets of its claims)}"""
        data, found = self.read(), {}
        for at, used in self.buckets(data):
            end = at + used
            while at < end:
                size, claims, name_size = struct.unpack_from("<III", data, at)
                name = data[at + LOCK.size:at + LOCK.size + name_size]
                claim = at + LOCK.size + (name_size + 7) // 8 * 8
                of = []
                for _ in range(claims):
                    of.append(claim)
                    claim += struct.unpack_from("<I", data, claim)[0]
                found[name.decode()] = at, of
                at += size
        return found
