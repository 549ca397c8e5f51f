"""Everything an operator or another program can do to a Redis server, at
random and in a row, while processes take one lock: no two are in at once,
tokens rise, nothing stays without a time to live."""

import os
import random
import threading
import time

import pytest

from harness.checks import assert_ttls
from harness.driver import DriverDied, LockError
from harness.resp import RedisError
from harness.wait import wait_until

SECONDS = float(os.environ.get("SNIB_CHAOS_SECONDS", "6"))
# Each with what sets things right again.
DEEDS = [
    (["SCRIPT", "FLUSH"], None),
    (["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], None),
    (["CLIENT", "KILL", "TYPE", "pubsub"], None),
    (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
    (["CONFIG", "SET", "min-replicas-to-write", "1"],
     ["CONFIG", "SET", "min-replicas-to-write", "0"]),
    (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
    (["CLIENT", "PAUSE", "300", "WRITE"], ["CLIENT", "UNPAUSE"]),
    (["CLIENT", "PAUSE", "200", "ALL"], None),
]


class Room:
    """Who is in, and the tokens of those who were."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside, self.last, self.count = None, 0, 0
        self.wrong = []

    def enter(self, who, token):
        with self.lock:
            if self.inside is not None:
                self.wrong.append(f"{who} met {self.inside}")
            if token <= self.last:
                self.wrong.append(f"token {token} after {self.last}")
            self.inside, self.last = who, token
            self.count += 1

    def leave(self):
        with self.lock:
            self.inside = None


def work(driver, room, who, ended):
    lock = driver.lock("n", lease_ms=10_000)
    while not ended.is_set():
        try:
            grant = driver.acquire(lock, wait_ms=2000)
        except LockError:
            continue
        room.enter(who, grant.token)
        held = driver.call("status", id=grant.id, on="look")
        assert held.held, held
        room.leave()
        try:
            grant.release()
        except LockError:
            pass  # unknown: its lease ends it


@pytest.mark.parametrize("seed", [1])
def test_chaos_lets_no_two_in(drivers, redis, seed):
    dice, room, ended = random.Random(seed), Room(), threading.Event()
    died = []

    def guarded(driver, who):
        try:
            work(driver, room, who, ended)
        except (AssertionError, DriverDied) as why:
            died.append(why)
    threads = [threading.Thread(
        target=guarded, args=(drivers(redis.url, request_ms=1500), who),
        daemon=True) for who in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    did = 0
    try:
        while time.monotonic() < end and not room.wrong and not died:
            deed, undo = dice.choice(DEEDS)
            before = room.count
            for command in (deed, undo):
                if command is None:
                    continue
                try:
                    redis.command(*command)
                except (RedisError, OSError):
                    pass  # its own connection was killed, or is paused
                did += 1
                limit = time.monotonic() + dice.choice((0.02, 0.1, 0.4))
                while time.monotonic() < limit and room.count == before:
                    time.sleep(0.005)
    finally:
        ended.set()
        for command in (undo for _, undo in DEEDS if undo):
            wait_until(lambda c=command: redis.command(*c) is not None, 10,
                       "the server can be set right")
        for thread in threads:
            thread.join(30)
    assert not room.wrong and not died, (room.wrong, died)
    assert did > 10 and room.count > 20, (did, room.count)
    assert_ttls(redis)
