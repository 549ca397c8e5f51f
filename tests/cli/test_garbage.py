"""Garbage where others than a user speak to the command: its environment,
grants, grant files, the holder's socket; and floods of that."""

import json
import os
import random
import socket
import struct
import subprocess
import threading

import pytest

from conftest import eventually, keeper_of

GARBAGE = ["", ":", "=", "a=", "%", "x" * 9999, "\x1b[31m", "-1", "0",
           "99999999999999999999", "a=0.0123456789abcdef", "1e9", "../../etc",
           "snib1:" + "9" * 400, "%00", "\udcff\udcfe"]


def is_told(done):
    said = done.stdout + done.stderr
    assert 0 <= done.returncode < 128, (done.returncode, said)
    assert "ssert" not in said and "Sanitizer" not in said, said
    assert "\x1b" not in said, repr(said)
    return done


@pytest.mark.parametrize("name", ["SNIB_HELD", "SNIB_TTL_MS", "SNIB_LEASE_FD",
                                  "SNIB_TOKEN", "SNIB_NAME", "SNIB_OWNER",
                                  "SNIB_SLOT"])
def test_garbage_in_the_environment(mapped, name):
    for value in GARBAGE:
        env = {name: value}
        assert is_told(mapped.run("check", env=env)).returncode != 0
        assert is_told(mapped.run("run", "a", "true", env=env)).returncode == 0


@pytest.mark.parametrize("verb", ["check", "renew", "release"])
def test_garbage_for_a_grant(mapped, verb):
    grant = mapped.acquire("-t", "20s", "n").stdout.strip()
    dice = random.Random(7)
    bad = list(GARBAGE[3:])
    for _ in range(25):
        text = list(grant)
        for _ in range(dice.randrange(1, 4)):
            text[dice.randrange(len(text))] = dice.choice("0f:.%x\x7f~")
        bad.append("".join(text))
    for text in [t for t in bad if t and t != grant and "\0" not in t]:
        done = is_told(mapped.run(verb, "--", text))
        if done.returncode == 0:  # a letter that says nothing of the grant
            assert verb != "release", text
    assert mapped.run("check", "-m", "0", grant).returncode == 0
    assert mapped.run("release", grant).returncode == 0


def test_garbage_in_a_grant_file(mapped):
    path = mapped.path("grant")
    for data in (b"", b"\n", b"\0" * 100, b"x" * 100_000, b"\xff\xfe\n",
                 b"snib1:\n", b"a\nb\nc\n", b"\x1b[31m\n"):
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, 0o600)
        for verb in ("check", "release"):
            done = is_told(mapped.run(verb, "-i", path))
            assert done.returncode != 0, (verb, data, done.stderr)


# -- the holder's socket ---------------------------------------------------------------


def address_of(pid):
    """The abstract address that a process listens at."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            kind = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if kind.startswith("socket:["):
            inodes.add(kind[8:-1])
    with open("/proc/net/unix", encoding="latin-1") as file:
        for line in file:
            words = line.split()
            if len(words) > 7 and words[6] in inodes and \
                    words[7].startswith("@snib"):
                return "\0" + words[7][1:]
    return None


def connect(address):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(5)
    peer.connect(address)
    return peer


def messages():
    dice = random.Random(3)
    magic = struct.pack("=I", 0x736e6231)
    yield b"x"
    yield magic
    for size in (4, 8, 24, 100, 511, 540, 600, 5000):
        yield bytes(size)
        yield b"\xff" * size
        yield magic + b"\xff" * size
        yield magic + struct.pack("=I", dice.randrange(9)) + bytes(
            dice.randrange(256) for _ in range(size))
    for verb in range(8):  # of the right size, with numbers out of bounds
        for number in (0, -1, 2 ** 63 - 1, -2 ** 63):
            for name_size in (0, 1, 512, 513, 2 ** 32 - 1):
                head = struct.pack("=IIqqI", 0x736e6231, verb, number, number,
                                   name_size)
                yield (head + b"n" * 512 + bytes(8))[:544]


def test_garbage_at_the_holders_socket(mapped):
    os.mkfifo(mapped.path("pipe"))
    pipe = os.open(mapped.path("pipe"), os.O_RDWR)  # waits for no reader
    p = mapped.start("run", "-q", "-t", "20s", "n", "--", "sh", "-c",
                     'read -r _ <"$0"; "$1" check', mapped.path("pipe"),
                     mapped.binary)
    keeper = eventually(lambda: keeper_of(p.pid), "a holder")
    address = eventually(lambda: address_of(keeper), "its address")
    for data in messages():
        try:
            with connect(address) as peer:
                peer.send(data)
        except OSError:
            pass  # dropped, as it may be
    assert keeper_of(p.pid) == keeper
    assert mapped.held("n")
    os.write(pipe, b"x\n")
    assert p.wait(20) == 0, "snib check inside says that it is held"
    os.close(pipe)


def test_a_flood_at_the_holders_socket_stops_no_check(mapped):
    grant = mapped.acquire("-t", "20s", "n").stdout.strip()
    keeper = mapped.keepers[-1]
    address = eventually(lambda: address_of(keeper), "its address")
    ended = threading.Event()
    tried = [0]

    def flood():
        while not ended.is_set():
            try:
                with connect(address) as peer:
                    peer.setblocking(False)
                    peer.send(b"\xff" * 300)
            except OSError:
                pass
            tried[0] += 1
    threads = [threading.Thread(target=flood, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            done = mapped.run("check", "--json", "-m", "0", grant, timeout=20)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["held"] is True
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)
    assert tried[0] > 100
    assert subprocess.run([mapped.binary, "release", grant], env=mapped.env,
                          timeout=20, check=False).returncode == 0
