"""The formula in docs/RING.md is what libsnib computes."""
import ctypes
import os
import pathlib
import random
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ROOT / "build" / "dev"))


class Member(ctypes.Structure):
    _fields_ = [("id", ctypes.c_char_p), ("id_size", ctypes.c_size_t),
                ("weight", ctypes.c_uint32)]


@pytest.fixture(scope="module")
def library():
    path = BUILD / "libsnib.so"
    if not path.exists():
        pytest.skip(f"no libsnib.so in {BUILD}")
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:  # a sanitizer's runtime wants to come first
        pytest.skip(str(error))
    lib.snib_ring_owner.restype = ctypes.c_size_t
    lib.snib_ring_owner.argtypes = [ctypes.c_void_p, ctypes.c_char_p,
                                    ctypes.c_size_t]
    lib.snib_ring_id.restype = ctypes.c_char_p
    lib.snib_ring_id.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                 ctypes.c_void_p]
    lib.snib_ring_free.argtypes = [ctypes.c_void_p]
    return lib


@pytest.fixture(scope="module")
def formula():
    text = (ROOT / "docs" / "RING.md").read_text()
    code = re.search(r"<!-- formula -->\n```python\n(.*?)```", text, re.S)
    names = {}
    exec(code.group(1), names)
    return names


def test_library_and_text_name_the_same_owners(library, formula):
    rng = random.Random(1)
    for _ in range(60):
        members = {f"worker-{rng.randrange(10 ** 6)}".encode():
                   rng.choice([1, 1, 1, 2, 5, 100])
                   for _ in range(rng.randrange(1, 9))}
        array = (Member * len(members))(
            *[Member(m, len(m), w) for m, w in members.items()])
        ring = ctypes.c_void_p()
        assert library.snib_ring_new(array, len(members), ctypes.byref(ring),
                                     None) == 0
        for _ in range(20):
            key = rng.randbytes(rng.randrange(0, 40))
            number = library.snib_ring_owner(ring, key, len(key))
            assert library.snib_ring_id(ring, number, None) == \
                formula["owner"](members, key)
        library.snib_ring_free(ring)
