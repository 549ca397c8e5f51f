"""Pairs of store and fault: how many there are, that one whose fault does nothing
has failed, and those of the two databases that ./dev test plays. (./dev campaign
--pairs all plays each.)"""

import collections
import os
import re
import shutil
import socket
import threading

import pytest

import pairs
import second
from pairs import EACH, PAIRS, Bench, Pair, Played, chosen
from pair_gate import bench, param, play  # noqa: F401
from campaign import missing
from harness.postgres_server import PostgresServer, postgres_missing
from harness.wait import stays, wait_until
from rigs import RIGS
from wire import Wire


def test_there_are_sixty_pairs_and_eight_a_store():
    many = collections.Counter(pair.store for pair in PAIRS)
    assert len(set(PAIRS)) == len(PAIRS) >= 60
    assert set(many) == set(EACH.split()) and min(many.values()) >= 8
    assert len({(pair.store, pair.fault) for pair in PAIRS}) == len(PAIRS)


def test_each_pair_counts_what_it_does_and_has_a_server():
    for pair in PAIRS:
        assert pair.least > 0 and pair.seen, pair
        assert RIGS[pair.store, pair.shape].name == pair.store, pair


def test_the_list_names_each_pair_and_counts_them():
    text = pairs.listed()
    for pair in PAIRS:
        assert (f"  {pair.store}:{pair.fault}{'  (fence)' * pair.lossy}"
                in text.splitlines())
    assert text.endswith(f"{len(PAIRS)} pairs")


def test_the_page_has_each_fault_and_where_it_is_played():
    with open(os.path.join(second.ROOT, "docs", "PROOF.md"),
              encoding="utf-8") as file:
        page = file.read().split("\n## Pairs of a store and a fault\n")[1]
    page = page.split("\n## ")[0]
    assert f": {len(PAIRS)} pairs." in page
    told = set()
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|", page, re.M):
        stores = EACH if row[1] == "all" else row[1]
        told |= {(store, fault) for fault in re.findall(r"`(\w+)`", row[0])
                 for store in EACH.split() if store in stores}
    # These two have one each in their row.
    told -= {("mysql", "time_out_the_idle"), ("postgres", "end_idle")}
    assert told == {(pair.store, pair.fault) for pair in PAIRS}


def test_pairs_are_chosen_by_store_by_fault_and_by_both():
    assert chosen("all") == PAIRS
    assert {pair.store for pair in chosen("etcd,mysql")} == {"etcd", "mysql"}
    assert len(chosen(":kill_server")) == 5
    assert [pair.fault for pair in chosen("etcd:kill_leader")] == ["kill_leader"]
    for wrong in ("", "oracle", "etcd:close_holder", "etcd,", ":calm"):
        assert chosen(wrong) is None, wrong


# -- the way ---------------------------------------------------------------------


class Echo:
    """A server that answers each piece with the same."""

    def __init__(self):
        self.ear = socket.create_server(("127.0.0.1", 0))
        self.port = self.ear.getsockname()[1]
        self.address = ("127.0.0.1", self.port)
        self.url = f"echo://127.0.0.1:{self.port}"
        self.heard = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                one, _ = self.ear.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,),
                             daemon=True).start()

    def _serve(self, one):
        try:
            while (data := one.recv(100)):
                self.heard.append(data)
                one.sendall(data)
        except OSError:
            pass


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.ear.close()


@pytest.fixture
def wire(echo):
    with Wire(echo) as made:
        yield made


def sent_until_cut(wire):
    """How many messages were answered on a new connection before it was cut."""
    with socket.create_connection(("127.0.0.1", wire.port)) as one:
        one.settimeout(5)
        for number in range(20):
            try:
                one.sendall(b"%d" % number)
                if not one.recv(100):
                    return number
            except OSError:
                return number
    return None


def test_each_message_is_lost_once_before_it_arrives_and_once_behind(echo, wire):
    wire.cut_each(3)
    assert [sent_until_cut(wire) for _ in range(8)] == [0, 0, 1, 1, 2, 2, 0, 0]
    assert wire.cuts == {1: 4, 2: 2, 3: 2}
    # The first of two was executed, the second one never arrived.
    assert sorted(echo.heard) == sorted(
        [b"0"] + [b"0", b"1"] + [b"0"] + [b"0", b"1", b"2"] + [b"0", b"1"]
        + [b"0"])
    wire.cut_no_more()
    assert sent_until_cut(wire) is None


def test_a_partition_keeps_back_what_comes_and_lets_it_through_late(echo, wire):
    with socket.create_connection(("127.0.0.1", wire.port)) as one:
        one.settimeout(5)
        one.sendall(b"a")
        assert one.recv(9) == b"a"
        wire.partition()
        one.sendall(b"b")
        wait_until(lambda: wire.kept_back == 1, 5, "it is kept back")
        stays(lambda: echo.heard == [b"a"], 0.2)
        wire.heal()
        assert one.recv(9) == b"b" and wire.kept_back == 1
        assert wire.cut() == 1 and wire.cut() == 0


# -- rounds ----------------------------------------------------------------------


def nothing(world, rig):
    """A fault without an effect."""
    del world, rig
    return 0


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_pair_whose_fault_does_nothing_has_failed():
    with Bench() as own:
        played = own.play(Pair("postgres", "nothing", nothing, 1, "times",
                               False, "one", False), 1)
    assert played.verdict.ok and not played.ok
    assert played.problems() == ["the fault did nothing: 0 times, and not 1"]


class Forgetful(RIGS["postgres", "one"]):
    """It answers a grant long before that is on its disk."""
    more, outage_ms = "?durable=no", 20_000

    @staticmethod
    def make():
        return PostgresServer(["wal_writer_delay = 10s"])


@pytest.mark.skipif(bool(missing() or postgres_missing()),
                    reason=missing() or postgres_missing())
def test_a_database_that_forgets_a_grant_is_found():
    rig = Forgetful()
    try:
        played = Played(chosen("postgres:kill_server")[0], rig, 1,
                        second.missing())
    finally:
        rig.close()
    assert "the store forgot it" in played.trouble and not played.ok
    shutil.rmtree(os.path.dirname(played.path))


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("pair", param(
    "postgres:kill_server,postgres:freeze_clients,postgres:lose_answers,"
    "postgres:end_connections,postgres:want_repeats,postgres:fill_disk,"
    "postgres:restore_database,postgres:fail_over"))
def test_postgres_keeps_its_promises_through(bench, pair):
    play(bench, pair)


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("pair", param(
    "mysql:restart_server,mysql:cut_each,mysql:want_repeats,mysql:read_only,"
    "mysql:fail_over_behind"))
def test_mariadb_keeps_its_promises_through(bench, pair):
    play(bench, pair)
