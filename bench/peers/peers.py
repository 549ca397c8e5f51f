#!/usr/bin/env python3
"""snib beside the locks that people use, on one Redis.

usage: ./dev bench --peers [--rounds N] [--seconds S] [--json FILE] [NAME…]

NAME: a row (each-1 each-8 each-64) or a peer; default: all of them. The
peers take turns, N times (5), each for S seconds (2). Of these turns the median
counts; a ratio is that of the medians, peer / snib.

  each-N   one process, N tasks, a lock each that nobody else wants

  sections   acquire and release, a second
  server     CPU of the server, microseconds a section
  executing  of these, while it executed commands (INFO commandstats; what a
             script calls counts once)

setnx is what one writes himself: SET NX PX and a script that compares and
deletes, over blocking hiredis, a connection a task. The others are libraries of
pinned versions, fetched with checksums into build/peers and built there, once;
one that cannot be had here is a skip with its reason. Redis is started for it,
without persistence. Leave the machine alone meanwhile: two cores are few.
Exit status: 0, 64 usage, 69 no Redis, 70 a peer does not start (build/peers/log).
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = ROOT / "build" / "peers"
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ROOT / "build" / "bench"))
sys.path.insert(0, str(ROOT / "tests"))
from harness.redis_server import RedisServer, redis_missing  # noqa: E402

ROWS = {"each-1": 1, "each-8": 8, "each-64": 64}  # tasks


class Missing(Exception):
    """Why a peer cannot be had on this machine."""


def fail(status, why):
    print(f"./dev bench --peers: {why}", file=sys.stderr)
    sys.exit(status)


# -- fetch and build -------------------------------------------------------------


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"{name} is not installed")
    return found


def make(language, *commands):
    """Run the commands in build/peers/LANGUAGE, a copy of the sources here."""
    place = PLACE / language
    shutil.copytree(HERE / language, place, dirs_exist_ok=True)
    for command in commands:
        done = subprocess.run(command, cwd=place, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["?"])[-1]
            raise Missing(f"{os.path.basename(command[0])} {command[1]}: {last}")
    return place


def go():
    place = make("go", [tool("go"), "build", "-mod=readonly", "-o", "peer"])
    return [str(place / "peer")]


def rust():
    place = make("rust", [tool("cargo"), "build", "--release", "--locked", "-q"])
    return [str(place / "target" / "release" / "peers")]


def js():
    place = make("js", [tool("npm"), "ci", "--ignore-scripts", "--no-audit",
                        "--no-fund"])
    return [tool("node"), str(place / "peer.mjs")]


def python():
    place = make("python", [sys.executable, "-m", "pip", "install", "-q",
                            "--no-deps", "--require-hashes", "--target", "lib",
                            "--upgrade", "-r", "requirements.txt"])
    return ["env", f"PYTHONPATH={place}/lib", sys.executable,
            str(place / "peer.py")]


def java_place():
    """Where Redisson and the programs for it are."""
    place = make("java", [tool("mvn"), "-q", "-B",
                          "dependency:copy-dependencies",
                          "-DoutputDirectory=lib"])
    known = {name: sum_of for sum_of, name in map(
        str.split, (place / "jars.sha256").read_text().splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
             for jar in (place / "lib").glob("*")}
    for name in sorted({*known, *found}):
        if known.get(name) != found.get(name):
            raise Missing(f"{name} is not what it was")
    return make("java", [tool("javac"), "-cp", "lib/*", "-d", ".", "Peer.java",
                         "Turns.java"])


def java():
    place = java_place()
    return [tool("java"), "-Xmx512m", "-cp", f"{place}:{place}/lib/*", "Peer"]


def ours():
    program = BUILD / "bench" / "snib-peer"
    if not program.exists():
        raise Missing("no release build there; call ./dev bench --peers")
    return [str(program)]


PEERS = {"snib": ours, "setnx": ours, "redsync": go, "redislock": go,
         "rueidislock": go, "rslock": rust, "redlock": js,
         "redis-semaphore": js, "redis-py": python, "redisson": java}


def build(names):
    """The command of each peer that can be had; why not, of the others."""
    commands, missing, made = {}, {}, {}
    for name in names:
        how = PEERS[name]
        if how not in made:
            print(f"building {how.__name__} …", file=sys.stderr)
            try:
                made[how] = how()
            except Missing as why:
                made[how] = why
        if isinstance(made[how], Missing):
            missing[name] = str(made[how])
        else:
            commands[name] = [*made[how], name]
    return commands, missing


# -- a turn ------------------------------------------------------------------------


def server_cpu_us(redis):
    with open(f"/proc/{redis.child.pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1000


def executing_us(redis):
    """Of each command, since the last look. What a script or a transaction
    calls is counted twice: with it and by itself."""
    said = redis.command("INFO", "commandstats").decode()
    return {name: float(us) for name, us in
            re.findall(r"cmdstat_(\S+?):calls=\d+,usec=(\d+)", said)}


WHOLE = ("eval", "evalsha", "exec")
# What these peers send beside scripts and transactions.
BARE = {"setnx": ("set",), "redsync": ("set",), "rslock": ("set",),
        "redis-py": ("set",), "redis-semaphore": ("set",),
        "redislock": (), "rueidislock": (), "redlock": (), "redisson": (),
        "snib": ()}


def turn(redis, peer, command, row, seconds):
    """What one peer did in its turn: sections/s, server, executing."""
    redis.command("FLUSHALL")
    with open(PLACE / "log", "a", encoding="utf-8") as log:
        child = subprocess.Popen(
            [*command, str(redis.port), str(ROWS[row]), "peers:%d",
             str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            text=True)
    try:
        if child.stdout.readline() != "ready\n":
            fail(70, f"{peer} did not start: see {PLACE}/log")
        redis.command("CONFIG", "RESETSTAT")
        cpu = server_cpu_us(redis)
        child.stdin.write("\n")
        child.stdin.flush()
        done = int(child.stdout.readline())
        cpu = server_cpu_us(redis) - cpu
        spent = executing_us(redis)
    finally:
        child.kill()
        child.wait()
    return {"sections": done / seconds, "server": cpu / max(done, 1),
            "executing": sum(spent.get(one, 0) for one in
                             (*WHOLE, *BARE[peer])) / max(done, 1)}


# -- the table -----------------------------------------------------------------------


def show(row, found):
    base = found["snib"] if "snib" in found else None
    print(f"\n{row}\n  {'':16} {'sections/s':>11} {'x snib':>7} "
          f"{'server us':>10} {'executing':>10}")
    for peer, is_ in sorted(found.items(), key=lambda one: -one[1]["sections"]):
        ratio = f"{is_['sections'] / base['sections']:7.2f}" if base else ""
        print(f"  {peer:16} {is_['sections']:11,.0f} {ratio:>7} "
              f"{is_['server']:10.1f} {is_['executing']:10.1f}")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(64, f"{message} (see --help)")


def parse(argv):
    args = Parser(prog="./dev bench --peers", description=__doc__,
                  formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--seconds", type=float, default=2)
    args.add_argument("--json", metavar="FILE")
    args.add_argument("names", nargs="*", metavar="NAME")
    args = args.parse_args(argv)
    for name in args.names:
        if name not in ROWS and name not in PEERS:
            fail(64, f"{name} is no row and no peer; there are "
                     + " ".join((*ROWS, *PEERS)))
    if args.rounds < 1 or args.seconds <= 0:
        fail(64, "--rounds and --seconds are above 0")
    return args


def main():
    args = parse(None)
    rows = [row for row in ROWS if row in args.names] or list(ROWS)
    peers = [peer for peer in PEERS if peer in args.names] or list(PEERS)
    if redis_missing():
        fail(69, redis_missing())
    PLACE.mkdir(parents=True, exist_ok=True)
    commands, missing = build(peers)
    turns = {row: {peer: [] for peer in commands} for row in rows}
    with RedisServer() as redis:
        for k in range(args.rounds):
            for row in rows:
                for peer in turns[row]:
                    print(f"round {k + 1}: {row} {peer}", file=sys.stderr)
                    turns[row][peer].append(
                        turn(redis, peer, commands[peer], row, args.seconds))
    medians = {row: {peer: {key: statistics.median(one[key] for one in all_)
                            for key in all_[0]} for peer, all_ in of.items()}
               for row, of in turns.items()}
    for row in rows:
        show(row, medians[row])
    for peer, why in missing.items():
        print(f"skipped: {peer}: {why}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"turns": turns, "medians": medians, "missing": missing}, indent=1))


if __name__ == "__main__":
    main()
