#!/usr/bin/env python3
"""How long nobody gets a lock when the primary fails: snib beside Redisson.

usage: ./dev bench --failover [--times N]

A primary, a replica and three Sentinels (down-after-milliseconds 1000), and a
client of each library behind them, each of which takes a lock of its own again
and again. The primary is replaced N times (5) in each of these ways, and the
longest pause between two grants of a client is what it cost:

  planned   SENTINEL FAILOVER
  kill      kill -9
  freeze    SIGSTOP, until both are served by another one

Both see the same failovers. A client that was not served for two minutes
counts with these. Redisson is fetched with checksums into build/peers; without
it its column stays empty, with the reason. Exit status: 0, 64 usage, 69 no
Redis, 70 snib's client was not served.
"""
import argparse
import subprocess
import sys
import threading
import time

import peers
from harness.process import freeze, thaw
from harness.redis_server import redis_missing
from harness.resp import RedisError
from harness.sentinel import SERVICE, Watched
from harness.wait import wait_until

LONGEST_S = 120
AFTER = 50  # grants by which one is known to be served again


class Turns:
    """A client; when it was granted its lock."""

    def __init__(self, command):
        self.at = []
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self._read, daemon=True).start()
        try:
            wait_until(lambda: len(self.at) > AFTER, 60, "the first grants")
        except AssertionError:
            self.close()
            raise

    def _read(self):
        for line in self.child.stdout:
            self.at.append(int(line) / 1e9)

    def pause_since(self, begun, replaced):
        """The longest time without a grant that ended after it had begun, when
        enough were granted behind the instant at which it had been replaced."""
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end:
            there = list(self.at)
            if sum(at >= replaced for at in there) > AFTER:
                first = max(at for at in there if at < begun)
                later = [at for at in there if at >= begun]
                return max(b - a for a, b in zip([first] + later, later))
            time.sleep(0.05)
        return LONGEST_S

    def close(self):
        self.child.kill()
        self.child.wait()


def planned(watched, old):
    """The old one is told, as a Sentinel would some ten seconds later."""
    def begins():
        try:
            return watched.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
        except RedisError:  # no replica is good enough yet
            return False
    wait_until(begins, 60, "a failover begins", every=0.2)
    new = watched.await_switch(old)
    old.command("REPLICAOF", "127.0.0.1", new.shown)
    return new


def kill(watched, old):
    old.kill()
    return watched.await_switch(old)


def frozen(watched, old):
    """It wakes when all are served again."""
    freeze(old.child)
    return watched.await_switch(old)


WAYS = {"planned": planned, "kill": kill, "freeze": frozen}


def follow(watched, old, new):
    """As a Sentinel would tell it ten seconds later."""
    if old.child.poll() is not None:
        old.config = [line for line in old.config
                      if not line.startswith("replicaof")] + [
                          f"replicaof 127.0.0.1 {new.shown}"]
        old.start()
    else:
        thaw(old.child)
        old.command("REPLICAOF", "127.0.0.1", new.shown)
    wait_until(lambda: old.command("ROLE")[3] == b"connected", 30, "it follows")
    wait_until(lambda: all(one.ready() for one in watched.sentinels), 60,
               "the Sentinels agree")


def clients(watched):
    """{name: Turns}; a text where there is none."""
    found = {"snib": Turns([str(peers.BUILD / "bench" / "snib-turns"),
                            watched.url, "bench:snib"])}
    try:
        place = peers.java_place()
        found["redisson"] = Turns(
            [peers.tool("java"), "-Xmx512m", "-cp", f"{place}:{place}/lib/*",
             "Turns", SERVICE, "bench:redisson",
             *(str(one.port) for one in watched.sentinels)])
    except (peers.Missing, AssertionError) as why:
        found["redisson"] = str(why)
    return found


def measure(times):
    """{(client, way): [seconds, …]}"""
    with Watched() as watched:
        there = clients(watched)
        found = {(name, way): [] for name in there for way in WAYS}
        primary = watched.primary
        for _ in range(times):
            for way, do in WAYS.items():
                begun, old = time.monotonic(), primary
                primary = do(watched, old)
                replaced = time.monotonic()
                for name, one in there.items():
                    if isinstance(one, Turns):
                        found[name, way].append(
                            one.pause_since(begun, replaced))
                follow(watched, old, primary)
        for one in there.values():
            if isinstance(one, Turns):
                one.close()
    return there, found


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --failover")
    parser.add_argument("--times", type=int, default=5, metavar="N")
    try:
        times = parser.parse_args().times
    except SystemExit as end:
        sys.exit(64 if end.code else 0)
    if times < 1:
        peers.fail(64, "--times wants 1 or more")
    if redis_missing():
        peers.fail(69, redis_missing())
    there, found = measure(times)
    print(f"longest pause between two grants, seconds: median (least–most) of"
          f" {times}\n\n| primary | " + " | ".join(there) + " |")
    print("|---" * (len(there) + 1) + "|")
    for way in WAYS:
        cells = []
        for name in there:
            values = sorted(found[name, way])
            cells.append(f"{values[len(values) // 2]:.2f}"
                         f" ({values[0]:.2f}–{values[-1]:.2f})"
                         if values else "–")
        print(f"| {way} | " + " | ".join(cells) + " |")
    for name, one in there.items():
        if isinstance(one, str):
            print(f"{name}: not here: {one}")
    served = all(value < LONGEST_S for (name, _), values in found.items()
                 if name == "snib" for value in values)
    sys.exit(0 if served else 70)


if __name__ == "__main__":
    main()
