"""What befalls a store, its way or its clients while they count.

Each function does its fault some times, undoes it, and returns how often its
effect was *seen* from outside: that the server's process was gone, that so many
connections had been open and were cut, that others were served while a holder
stood still. pairs.py tells for each what is counted, and how often it must be.
A fault that had no effect is a failure.
"""

import contextlib
import time

from harness.wait import wait_until

from history import boot_ns

LOST_S = 20  # so long all that is to be lost may take to come by
# So long after a server is back: others have polled, and would have been let in.
BACK_S = 1.5


def lease_s(rig):
    return rig.lease_ms / 1000


@contextlib.contextmanager
def blackout(world):
    """Inside, the server answers nobody."""
    begun = boot_ns()
    yield
    world.history("blackout", began=begun, ended=boot_ns())


# -- the server ----------------------------------------------------------------


def _away(world, rig, end):
    seen = 0
    for part in rig.away:
        wait_until(world.is_old, 30, "the lock is old enough")
        with world.held_through(BACK_S) as holder:
            end()
            with blackout(world):
                assert rig.is_gone(), "the server is still there"
                seen += 1
                world.pause(part * lease_s(rig))
            rig.start()
            back = time.monotonic()
        world.check_kept(holder, back)
        world.more(4)
    return seen


def kill_server(world, rig):
    return _away(world, rig, rig.kill)


def restart_server(world, rig):
    return _away(world, rig, rig.stop)


def _freeze(world, rig, leases):
    seen = 0
    for _ in range(2):
        with world.held_through(0.5 * lease_s(rig)):
            before = len(world.granted)
            rig.freeze()
            try:
                wait_until(rig.stands_still, 5, "the server stands still")
                with blackout(world):
                    world.pause(leases * lease_s(rig))
                    assert rig.stands_still(), "the server went on"
                    # One may have been granted just before.
                    seen += len(world.granted) <= before + 2
            finally:
                rig.thaw()
        world.more(4)
    return seen


def freeze_server(world, rig):
    return _freeze(world, rig, 0.9)


def freeze_server_long(world, rig):
    return _freeze(world, rig, 2.0)


# -- clients -------------------------------------------------------------------


def who_is_inside(world):
    """The client that is in its section just now; None: nobody."""
    for client in world.drivers:
        if client.p == world.inside:
            return client
    return None


def freeze_clients(world, rig):
    """Inside a section, for longer than the lease, until others were served."""
    seen, end = 0, time.monotonic() + 2 * LOST_S
    while seen < 2 and time.monotonic() < end:
        client = who_is_inside(world)
        if client is None:
            world.pause(0.002)
            continue
        with client.frozen():
            if world.inside != client.p:
                continue  # it was through just before
            world.pause(1.1 * lease_s(rig))
            world.more(1)
            seen += 1
    return seen


def kill_clients(world, rig):
    """Inside a section; others are served behind its lease."""
    # each costs a lease, and a session where there are any
    seen, end = 0, time.monotonic() + 3 * LOST_S
    while seen < 3 and time.monotonic() < end:
        client = who_is_inside(world)
        if client is None:
            world.pause(0.002)
            continue
        client.kill()
        world.more(1)
        seen += 1
    return seen


# -- the way -------------------------------------------------------------------


def cut_all(world, rig):
    """Each second client's connections, at once."""
    return _again(world, rig, rig.wire.cut)


MESSAGES = 12


def cut_each(world, rig):
    """The n-th message of a connection, for each n up to MESSAGES: it, or its
    answer. How many of these n there were."""
    rig.wire.cut_each(MESSAGES)
    try:
        end = time.monotonic() + LOST_S
        while len(rig.wire.cuts) < MESSAGES and time.monotonic() < end:
            world.pause(0.05)
    finally:
        rig.wire.cut_no_more()
    return len(rig.wire.cuts)


def _lose(world, rig, then):
    rules = [rig.wire.lose_answers(words, times=4, then=then)
             for words in rig.words]
    end = time.monotonic() + LOST_S
    while (not all(rule.fired >= 3 for rule in rules)
           and time.monotonic() < end):
        world.pause(0.05)
    for rule in rules:
        rule.times = 0
        assert rule.fired, f"no answer was lost to what has {rule.words}"
    rig.wire.rules.clear()
    return sum(rule.fired for rule in rules)


def lose_answers(world, rig):
    """To each kind of message, and the connection is cut: it was done, and who
    asked does not know."""
    return _lose(world, rig, "rst")


def silence_answers(world, rig):
    """The same, and the connection stays: nothing comes any more."""
    return _lose(world, rig, "silence")


def _partition(world, rig, leases):
    seen = 0
    for _ in range(2):
        before = rig.wire.kept_back
        rig.wire.partition()
        try:
            world.pause(leases * lease_s(rig))
            world.more(1)  # the other clients go on
        finally:
            rig.wire.heal()
        seen += rig.wire.kept_back - before
        world.more(2)
    return seen


def partition_short(world, rig):
    return _partition(world, rig, 0.5)


def partition_long(world, rig):
    return _partition(world, rig, 2.0)


# -- databases -----------------------------------------------------------------


def _again(world, rig, end, times=5):
    seen = 0
    for _ in range(times):
        with world.held_through(0.3 * lease_s(rig)):
            seen += end()
        world.more(2)
    return seen


def end_connections(world, rig):
    return _again(world, rig, rig.end_connections)


def end_listeners(world, rig):
    """They are made when somebody waits."""
    def end():
        return wait_until(rig.end_listeners, 20, "somebody listens")
    return _again(world, rig, end)


def end_idle(world, rig):
    return _again(world, rig, rig.end_idle, 10)


def time_out_the_idle(world, rig):
    with rig.ends_the_idle(150) as counted:
        before = counted()
        world.pause(4)
        seen = counted() - before
    return seen


def want_repeats(world, rig):
    with rig.wants_repeats() as counted:
        world.more(10)
        world.pause(1)
        return counted()


def lock_rows(world, rig):
    before = rig.refused_rows()
    for _ in range(2):
        rig.lock_row(1.6)
        world.more(2)
    return rig.refused_rows() - before


def fill_disk(world, rig):
    with rig.disk_fills_up() as counted:
        before = counted()
        wait_until(lambda: counted() > before + 2, 60, "the disk is full")
        world.pause(0.7 * lease_s(rig))
        seen = counted() - before
    return seen


def read_only(world, rig):
    """A server that refuses to write, as a primary does that is one no longer."""
    seen = 0
    for _ in range(2):
        with world.held_through():
            rig.sql("SET GLOBAL read_only=1")
            try:
                with blackout(world):
                    world.pause(0.2)
                    before = rig.sql("SELECT max(token) FROM snib_lock")
                    world.pause(0.8 * lease_s(rig))
                    seen += before == rig.sql(
                        "SELECT max(token) FROM snib_lock")
            finally:
                rig.sql("SET GLOBAL read_only=0")
        world.more(3)
    return seen


def restore_database(world, rig):
    """As it was some grants ago."""
    rig.save()
    world.more(8)
    last = int(rig.sql(f"SELECT max(token) FROM {rig.LOCK}"))
    with world.held_through(BACK_S):
        rig.kill()
        rig.restore()
        rig.start()
    world.more(2)
    now = int(rig.sql(f"SELECT max(token) FROM {rig.LOCK}"))
    assert now > last, (now, last)
    return 1


def fail_over(world, rig):
    """To one that has all."""
    last = rig.tokens()[0]
    with world.held_through(BACK_S) as holder:
        rig.fail_over()
        back = time.monotonic()
    world.check_kept(holder, back)
    world.more(4)
    assert last < rig.last_token(), "a token was forgotten"
    return 1


def fail_over_behind(world, rig):
    """To one that lacks the newest grants."""
    rig.fall_behind()
    world.more(6)
    first, second = rig.tokens()
    assert second < first, (first, second)
    with world.held_through(BACK_S):
        rig.fail_over()
    world.more(4)
    return 1


def _step(world, rig, seconds):
    seen = 0
    for _ in range(3):
        with world.held_through(0.3 * lease_s(rig)):
            before, at = rig.now(), time.time()
            rig.step_clock(seconds)
            moved = rig.now() - before - (time.time() - at)
        seen += abs(moved - seconds) < 0.5
        world.more(4)
    return seen


def clock_forward(world, rig):
    return _step(world, rig, 5)


def clock_back(world, rig):
    """By less than a lease: the dead are waited for by so much longer."""
    return _step(world, rig, -1)
