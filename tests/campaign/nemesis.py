"""Faults. Each function does one, undoes it, and leaves lines about it.

lossy: the store forgets what it acknowledged, or its clock jumps ahead; then
exclusion may fail (its conditions are not met) and the fence must hold.

A fault of a server befalls one node: the store itself, or one of a quorum,
whose others go on.
"""

import contextlib
import os
import signal

from history import boot_ns

LEASE_S = 0.6


def _signal(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _victim(world):
    """(driver client, None) or (None, a process of `snib run`). Most often
    the one that was the last to enter its section."""
    holder = [driver for driver in world.drivers if driver.p == world.holder]
    if holder and world.random.random() < 0.5:
        return holder[0], None
    targets = [pid for cli in world.clis for pid in cli.targets()]
    if targets and world.random.random() < 0.4:
        return None, world.random.choice(targets)
    return world.random.choice(world.drivers), None


def _stop(world, seconds):
    driver, pid = _victim(world)
    if driver is not None:
        driver.freeze(seconds)
        return
    _signal(pid, signal.SIGSTOP)
    world.pause(seconds)
    _signal(pid, signal.SIGCONT)


def calm(world):
    world.pause(0.5)


def stop_short(world):
    _stop(world, world.random.uniform(0.05, 0.5) * LEASE_S)


def stop_long(world):
    _stop(world, world.random.uniform(1.1, 2.2) * LEASE_S)


def kill(world):
    driver, pid = _victim(world)
    if driver is not None:
        driver.kill()
    else:
        _signal(pid, signal.SIGKILL)


@contextlib.contextmanager
def _blackout(world, nodes):
    """Inside, so many nodes answer nobody; enough of them are the store."""
    begun = boot_ns()
    yield
    if nodes >= world.store.majority:
        world.history("blackout", began=begun, ended=boot_ns())


def _restart(world, lost):
    server = world.store.node(world.random).server
    server.kill()
    with _blackout(world, 1):
        world.pause(world.random.choice([0, 0.1, 0.5, 1.0]) * LEASE_S)
        if lost:
            server.drop_files()
    server.start()


def restart_kept(world):
    _restart(world, False)


def restart_lost(world):
    _restart(world, True)


def server_stop(world):
    server = world.store.node(world.random).server
    server.freeze()
    with _blackout(world, 1):
        world.pause(world.random.choice([0.3, 0.8, 3.0]) * LEASE_S)
    server.thaw()


def cut(world):
    world.store.node(world.random).proxy.cut_all(
        world.random.choice(["rst", "fin"]))


def lost_reply(world):
    random = world.new_random(world.random.getrandbits(64))
    proxy = world.store.node(world.random).proxy
    then = random.choice(["rst", "fin", "silence"])
    rules = [proxy.drop_reply(then, where=lambda frame:
                              random.random() < 0.25),
             proxy.drop_push(where=lambda frame: random.random() < 0.25)]
    world.pause(world.random.uniform(0.1, 0.5))
    for rule in rules:
        rule.remove()


def half_open(world):
    rule = world.store.node(world.random).proxy.half_open(
        world.random.choice(["request", "reply", "push"]),
        times=world.random.randint(1, 3))
    world.pause(world.random.uniform(0.2, 0.8))
    rule.remove()


def delay(world):
    """Each answer of a node comes late, some later than its patience."""
    proxy = world.store.node(world.random).proxy
    rules = [proxy.delay_reply(world.random.uniform(0.01, 0.15)),
             proxy.delay_push(world.random.uniform(0.01, 0.15))]
    world.pause(world.random.uniform(0.2, 0.6))
    for rule in rules:
        rule.remove()


def _partition(world, nodes):
    rules = [node.proxy.partition() for node in nodes]
    with _blackout(world, len(nodes)):
        world.pause(world.random.choice([0.3, 1.2, 3.0]) * LEASE_S)
    for rule in rules:
        rule.remove()


def partition(world):
    _partition(world, [world.store.node(world.random)])


def partition_majority(world):
    _partition(world, world.random.sample(world.store.nodes,
                                          world.store.majority))


def script_flush(world):
    world.store.node(world.random).server.command("SCRIPT", "FLUSH")


def client_kill(world):
    world.store.node(world.random).server.command(
        "CLIENT", "KILL", "TYPE", world.random.choice(["normal", "pubsub"]),
        "SKIPME", "yes")


def flushall(world):
    """Two milliseconds after whatever was granted last: tokens count
    milliseconds once all memory of them is gone, and a grant, a FLUSHALL and
    a grant within one would get one token. No operator is that quick."""
    with world.store.server.client() as client:
        for words in (["MULTI"], ["DEBUG", "SLEEP", "0.002"], ["FLUSHALL"],
                      ["EXEC"]):
            client.command(*words)


def evict(world):
    """A cache on the same server grows to maxmemory."""
    server = world.store.server
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    server.command("CONFIG", "SET", "maxmemory", "2500kb")
    with server.client() as client:
        for number in range(600):
            client.send("SET", f"cache:{number}", "x" * 4000, "PX", "60000")
        for _ in range(600):
            client.read()  # +OK or -OOM
    server.command("CONFIG", "SET", "maxmemory", "0")
    server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    server.command("EVAL", "for i = 0, 599 do redis.call('UNLINK',"
                   " 'cache:' .. i) end", 0)


def clock_forward(world):
    world.store.step_clock(world.random.randint(700, 5000))


def clock_back(world):
    """Leases become longer; nobody gets anything that he may not have."""
    world.store.step_clock(-world.random.randint(50, 400))


def disk_full(world):
    with world.store.full():
        world.pause(world.random.uniform(0.2, 1.5) * LEASE_S)


LOSSY = {"restart_lost", "flushall", "evict", "clock_forward"}
ANYWHERE = [calm, stop_short, stop_long, kill]
REDIS = [restart_kept, restart_lost, server_stop, cut, lost_reply, delay,
         half_open, partition, script_flush, client_kill, flushall, evict,
         clock_forward, clock_back]
# Of a quorum: each node keeps what it acknowledged, in each of them.
QUORUM = [restart_kept, server_stop, cut, lost_reply, delay, half_open,
          partition, partition_majority, script_flush, client_kill]
FILE = [disk_full]
KINDS = {"redis": {fault.__name__: fault for fault in ANYWHERE + REDIS},
         "quorum": {fault.__name__: fault for fault in ANYWHERE + QUORUM},
         "file": {fault.__name__: fault for fault in ANYWHERE + FILE},
         # One process: it may be stopped as a whole, or begin anew.
         "memory": {fault.__name__: fault for fault in ANYWHERE}}
# A fault that is over at once, and the next one soon after.
QUICK = {"cut", "script_flush", "client_kill", "flushall", "evict", "kill",
         "clock_forward", "clock_back"}
