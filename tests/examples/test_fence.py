"""examples/fence: each check accepts the holder, refuses the late one, and
does not lose an update (docs/FENCING.md, hole H32)."""

import re
import sqlite3

import pytest

T1, T2 = 1_790_000_000_000_001, 1_790_000_000_000_002


class Sql:
    """A counter in SQLite, guarded by fence.sql."""

    def __init__(self, text):
        parts = re.split(r"(?m)^-- name: (\w+)\n", text)
        self.sql = dict(zip(parts[1::2], parts[2::2]))
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute(self.sql["schema"])
        self.db.execute("CREATE TABLE counter (n INT)")
        self.db.execute("INSERT INTO counter VALUES (10)")
        self.db.execute(self.sql["make"], {"name": "c"})
        self.db.execute(self.sql["make"], {"name": "c"})  # harmless

    def _rows(self, which, token):
        return self.db.execute(
            self.sql[which], {"name": "c", "token": token}).rowcount

    def enter(self, token):
        return self._rows("enter", token) == 1

    def read(self):
        return self.db.execute("SELECT n FROM counter").fetchone()[0]

    def write(self, token, value):
        self.db.execute("BEGIN IMMEDIATE")
        if self._rows("check", token) != 1:
            self.db.execute("ROLLBACK")
            return False
        self.db.execute("UPDATE counter SET n = ?", (value,))
        self.db.execute("COMMIT")
        return True


class Redis:
    """A counter in Redis, guarded by enter.lua and write.lua."""

    def __init__(self, server, enter, write):
        self.server, self.enter_text, self.write_text = server, enter, write
        server.command("HSET", "{c}", "n", "10")

    def enter(self, token):
        return self.server.command(
            "EVAL", self.enter_text, "1", "{c}:mark", str(token)) == 1

    def read(self):
        return int(self.server.command("HGET", "{c}", "n"))

    def write(self, token, value):
        return self.server.command(
            "EVAL", self.write_text, "2", "{c}:mark", "{c}", str(token),
            "n", str(value)) == 1


class File:
    """A counter in a file, guarded by fence-file."""

    def __init__(self, example, path):
        self.example, self.path = example, path
        path.write_text("10")

    def _ask(self, verb, token, **options):
        status = self.example("fence-file", verb, self.path, token,
                              **options).returncode
        assert status in (0, 75)
        return status == 0

    def enter(self, token):
        return self._ask("enter", token)

    def read(self):
        return int(self.path.read_text())

    def write(self, token, value):
        return self._ask("write", token, input=str(value))


@pytest.fixture(params=["sql", "redis", "file"])
def counter(request, text_of, example, tmp_path):
    if request.param == "sql":
        return Sql(text_of("fence/fence.sql"))
    if request.param == "redis":
        return Redis(request.getfixturevalue("redis"),
                     text_of("fence/enter.lua"), text_of("fence/write.lua"))
    return File(example, tmp_path / "counter")


def test_the_holder_writes_and_writes_again(counter):
    assert counter.enter(T1)
    assert counter.write(T1, 11)
    assert counter.write(T1, 12)
    assert counter.read() == 12


def test_entering_again_with_the_same_token_is_fine(counter):
    assert counter.enter(T1)
    assert counter.enter(T1)
    assert counter.write(T1, 11)


def test_a_late_write_is_refused(counter):
    assert counter.enter(T1)
    assert counter.enter(T2)
    assert not counter.write(T1, 99)
    assert counter.read() == 10
    assert counter.write(T2, 11)


def test_a_late_holder_cannot_enter(counter):
    assert counter.enter(T2)
    assert not counter.enter(T1)
    assert counter.write(T2, 11)


def test_no_update_is_lost_when_the_first_reader_froze(counter):
    """H32: A reads 10 and freezes, B reads 10, A writes 11, B writes 11."""
    assert counter.enter(T1)
    seen_by_a = counter.read()
    assert counter.enter(T2)
    seen_by_b = counter.read()
    assert not counter.write(T1, seen_by_a + 1)  # without enter: accepted
    assert counter.write(T2, seen_by_b + 1)
    assert counter.read() == 11


def test_a_write_without_entering_is_refused(counter):
    assert not counter.write(T1, 99)
    assert counter.read() == 10


def test_tokens_that_differ_in_the_last_digit_are_told_apart(counter):
    top = 2**53 - 1
    assert counter.enter(top - 1)
    assert counter.enter(top)
    assert not counter.enter(top - 1)
    assert not counter.write(top - 1, 99)
    assert counter.write(top, 11)


def test_sql_check_and_write_are_one_transaction(text_of):
    counter = Sql(text_of("fence/fence.sql"))
    assert counter.enter(T1)
    counter.db.execute("BEGIN IMMEDIATE")
    assert counter._rows("check", T1) == 1
    assert counter.db.in_transaction  # T2 cannot enter before the commit
    counter.db.execute("ROLLBACK")


def test_the_redis_script_refuses_what_is_no_token(redis, text_of):
    for bad in ("", "-1", "1e3", "9007199254740992", "x"):
        with pytest.raises(Exception, match="FENCE"):
            redis.command("EVAL", text_of("fence/enter.lua"), "1", "m", bad)
    assert redis.command("GET", "m") is None


def test_the_file_keeps_no_leftovers_of_refused_writes(example, tmp_path):
    file = tmp_path / "f"
    file.write_text("old")
    assert example("fence-file", "enter", file, T2).returncode == 0
    assert example("fence-file", "write", file, T1,
                   input="new").returncode == 75
    assert sorted(p.name for p in tmp_path.iterdir()
                  if p.name.startswith("f")) == ["f", "f.mark"]
    assert file.read_text() == "old"


def test_a_damaged_mark_stops_everybody(example, tmp_path):
    file = tmp_path / "f"
    (tmp_path / "f.mark").write_text("what?\n")
    assert example("fence-file", "enter", file, T1).returncode == 74
    assert example("fence-file", "write", file, T1, input="").returncode == 74
    assert not file.exists()


def test_the_demo_shows_a_refused_stale_write_by_the_same_rule(text_of):
    """demo/shop.c says the same in C; keep the two alike."""
    shop = text_of("../demo/shop.c")
    assert "mark <= ?2" in shop and "mark = ?3" in shop
