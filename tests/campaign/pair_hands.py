"""What an administrator's hand, a lost member or a full disk does to etcd,
ZooKeeper and RabbitMQ while clients count. As in pair_faults.py: each function
returns how often its effect was seen.
"""

import contextlib
import time

from harness.wait import wait_until
from harness.zookeeper_server import ZookeeperError

from pair_faults import BACK_S, LOST_S, blackout, lease_s


def _until(world, times, once):
    """Call it until it has had its effect so often, or for a while."""
    seen, end = 0, time.monotonic() + LOST_S
    while seen < times and time.monotonic() < end:
        with world.held_through(0.3 * lease_s(world.store)):
            done = once()
        if done:
            seen += 1
            world.more(2)
    return seen


# -- members of an ensemble ------------------------------------------------------


def _lose_leader(world, rig, lose, back):
    seen = 0
    for _ in range(2):
        leader = rig.leader()
        with world.held_through(BACK_S) as holder:
            lose(leader)
            wait_until(lambda lost=leader: rig.server.led_by_others(lost), 40,
                       "another leader")
            seen += 1
            back_at = time.monotonic()
        world.check_kept(holder, back_at)
        world.more(4)
        back(leader)
        world.more(2)
    return seen


def kill_leader(world, rig):
    def kill(leader):
        leader.kill()
        assert rig.member_is_gone(leader)
    return _lose_leader(world, rig, kill, rig.back)


def freeze_leader(world, rig):
    return _lose_leader(world, rig, lambda leader: leader.freeze(), rig.back)


def cut_off_leader(world, rig):
    """Its clients reach it, and it reaches no member."""
    def back(leader):
        rig.server.join_again()
        rig.back(leader)
    return _lose_leader(world, rig, rig.server.cut_off, back)


def move_leader(world, rig):
    """By hand, while all are there."""
    seen = 0
    for _ in range(3):
        leader = rig.leader()
        others = [one for one in rig.server.members if one is not leader]
        number = rig.member_id(others[seen % 2])
        with world.held_through(0.3 * lease_s(rig)):
            rig.ctl("move-leader", f"{number:x}", member=leader)
            seen += wait_until(rig.server.leader, 20, "a leader") is not leader
        world.more(4)
    return seen


def kill_followers(world, rig):
    """One after the other; whoever talked to it goes to another one."""
    seen = 0
    leader = rig.leader()
    for member in [one for one in rig.server.members if one is not leader]:
        with world.held_through(0.5 * lease_s(rig)):
            member.kill()
            seen += rig.member_is_gone(member)
        world.more(4)
        rig.back(member)
        world.more(2)
    return seen


def kill_majority(world, rig):
    """Nobody is granted anything before one of the two is back."""
    leader = rig.leader()
    lost = [leader, next(one for one in rig.server.members
                         if one is not leader)]
    with world.held_through():
        for member in lost:
            member.kill()
        with blackout(world):
            before = len(world.granted)
            world.pause(1.5 * lease_s(rig))
            assert len(world.granted) <= before + 2, "who has granted that?"
            seen = sum(rig.member_is_gone(member) for member in lost)
        rig.back(*lost)
    world.more(4)
    return seen


# -- etcd ------------------------------------------------------------------------


def revoke_holders(world, rig):
    """The lease under which the oldest claim is: most often the holder's."""
    def once():
        claims = rig.claims(world.lock)
        return bool(claims) and rig.revoke(claims[0][1])
    return _until(world, 4, once)


def revoke_waiters(world, rig):
    """Each claim but the oldest one, which is not the holder's for sure only if
    the same lease serves it, too: a client has one for all of that second."""
    def once():
        claims = rig.claims(world.lock)
        first = {lease for _, lease in claims[:1]}
        return sum([rig.revoke(lease) for lease in
                    {lease for _, lease in claims[1:]} - first])
    return _until(world, 4, once)


def delete_claims(world, rig):
    """Of whoever is there: a release by force, and a place that is lost."""
    def once():
        said = rig.ctl("del", "--prefix", f"snib/l/{world.lock}/c/").split()
        return int(said[0]) > 0
    return _until(world, 4, once)


def compact(world, rig):
    """All that was, to the last revision; and the file is written anew."""
    seen = 0
    for _ in range(5):
        before = int(rig.fields("endpoint", "status")["DBSize"][0])
        rig.compact()
        rig.ctl("defrag", timeout=20)
        seen += int(rig.fields("endpoint", "status")["DBSize"][0]) <= before
        world.more(2)
    return seen


def fill_etcd(world, rig):
    """NOSPACE: no lease is given any more, until there is room."""
    value = "x" * 400_000
    for i in range(40):
        if "exceeded" in rig.ctl("put", f"fill{i}", stdin=value, check=False):
            break
    seen = rig.ctl("alarm", "list").count("NOSPACE")
    world.pause(1.5 * lease_s(rig))
    rig.ctl("del", "--prefix", "fill")
    rig.compact()
    rig.ctl("defrag", timeout=20)
    rig.ctl("alarm", "disarm")
    return seen


def restore_etcd(world, rig):
    """As it was some grants ago, without what was written since."""
    backup = rig.server.only.dir + "/backup"
    rig.ctl("snapshot", "save", backup)
    rig.ctl("put", "since", "it")
    world.more(8)
    with world.held_through(BACK_S):
        rig.server.restore(backup)
    world.more(4)
    return int("since" not in rig.ctl("get", "since"))


# -- ZooKeeper -------------------------------------------------------------------


def _remove(world, rig, which):
    """which: 0 the first node, 1 a record, or both."""
    with rig.server.client() as look:
        def once():
            nodes = rig.nodes(look, world.lock)
            if not all(nodes[i] for i in which):
                return False
            with contextlib.suppress(ZookeeperError):  # it was quicker
                for i in which:
                    look.delete(f"/snib/{world.lock}/{nodes[i][0]}")
                return True
            return False
        return _until(world, 3, once)


def remove_nodes(world, rig):
    return _remove(world, rig, (0,))


def remove_records(world, rig):
    return _remove(world, rig, (1,))


def remove_both(world, rig):
    """A release by force: the record first, then the node."""
    return _remove(world, rig, (1, 0))


def end_sessions(world, rig):
    """Those behind the wire are over while they are cut off."""
    def sessions():
        return rig.server.only.four_letters("cons").count("sid=")
    seen = 0
    for _ in range(2):
        # A busy server now and then ends the answer before it is read.
        before = wait_until(sessions, 20, "who is connected")
        rig.wire.partition()
        try:
            seen += before - wait_until(
                lambda b=before: (lambda n: n if 0 < n < b - 3 else 0)(
                    sessions()), 20, "sessions end")
            world.more(2)
        finally:
            rig.wire.heal()
        world.more(4)
    return seen


# -- RabbitMQ --------------------------------------------------------------------


def _queue(world):
    return f"snib.l.{world.lock}"


def close_connections(world, rig):
    """All at once, by rabbitmqctl."""
    seen = 0
    for _ in range(3):
        before = rig.log_says("by hand")
        with world.held_through(BACK_S):
            rig.ctl("close_all_connections", "by hand")
            seen += wait_until(lambda b=before: rig.log_says("by hand") - b, 10,
                               "they are closed")
        world.more(2)
    return seen


def close_holder(world, rig):
    """The connection whose consumer is the active one; it may hold."""
    def once():
        words = rig.ctl("eval", CLOSE_ACTIVE % _queue(world))
        return "closed" in words
    return _until(world, 3, once)


# Which process reads the channel of the queue's active consumer, and its end.
CLOSE_ACTIVE = """
{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
Pids = [element(1, C) || C <- rabbit_amqqueue:consumers(Q), element(5, C)],
Infos = [[{connection, N}] || P <- Pids,
         [{connection, N}] <- [rabbit_channel:info(P, [connection])]],
[rabbit_networking:close_connection(N, "by hand") || [{connection, N}] <- Infos],
case Infos of [] -> none; _ -> closed end.
"""


def delete_queue(world, rig):
    """A release by force, and each consumer is cancelled."""
    def once():
        with rig.server.client() as look:
            if look.counts(_queue(world)) is None:
                return False
            look.delete(_queue(world))
            return True
    return _until(world, 3, once)


# The queue's process ends, and its supervisor makes another one from the log.
KILL_QUEUE = """
{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
{Name, _} = amqqueue:get_pid(Q),
Old = whereis(Name), exit(Old, kill), timer:sleep(300),
case whereis(Name) of Old -> same; undefined -> none; _ -> another end.
"""


def kill_queue(world, rig):
    """The one process of the broker that is the queue's leader."""
    seen = 0
    wait_until(world.is_old, 30, "the lock is old enough")
    for _ in range(2):
        with world.held_through(0.5 * lease_s(rig)):
            seen += "another" in rig.ctl("eval", KILL_QUEUE % _queue(world))
        world.more(4)
    return seen


def _alarm(world, rig, on, off, name):
    """The broker reads nothing from those who publish."""
    rig.ctl(*on)
    try:
        seen = wait_until(lambda: name in rig.ctl(
            "eval", "rabbit_alarm:get_alarms()."), 20, "the alarm is on")
        with blackout(world):
            before = len(world.granted)
            world.pause(1.2 * lease_s(rig))
            assert len(world.granted) <= before + 2, "who has granted that?"
    finally:
        rig.ctl(*off)
    return int(bool(seen))


def memory_alarm(world, rig):
    return _alarm(world, rig, ["set_vm_memory_high_watermark", "0.0001"],
                  ["set_vm_memory_high_watermark", "absolute", "400MB"],
                  "memory")


def disk_alarm(world, rig):
    return _alarm(world, rig, ["set_disk_free_limit", "100000GB"],
                  ["set_disk_free_limit", "1MB"], "disk")


def stop_app(world, rig):
    """The node stays, what serves clients is stopped and started again."""
    wait_until(world.is_old, 30, "the lock is old enough")
    with world.held_through(BACK_S):
        rig.ctl("stop_app")
        seen = not rig.server.serves()
        with blackout(world):
            world.pause(0.5 * lease_s(rig))
        rig.ctl("start_app")
    world.more(4)
    return int(seen)
