"""A lock file that another program wrote into: rows that cannot be ours are
skipped or refused in words; nothing crashes, hangs, or is believed for ever."""

import json
import os
import random
import sqlite3

import pytest

HOSTILE = [None, -1, 0, 1, 2 ** 63 - 1, -2 ** 63, float("inf"), 1e308, "",
           "x", "x" * 5000, "..", "a/b", "\x1b[31m", b"", b"\0", b"\xff" * 64,
           b"z" * 5000]


def columns(db, table):
    return [(row[1], row[2], row[5]) for row in
            db.execute(f"PRAGMA table_info({table})")]


def tables(db):
    return [row[0] for row in db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite_%' AND name <> 'meta'")]


def edit(path, change):
    """Run change(db) as another program would."""
    db = sqlite3.connect(path, timeout=10)
    try:
        db.execute("PRAGMA ignore_check_constraints = 1")
        change(db)
        db.commit()
    finally:
        db.close()


def spoil(path, dice):
    """Some columns of the rows there are, and some rows of nobody."""
    def change(db):
        for table in tables(db):
            names = [c[0] for c in columns(db, table)]
            for name in dice.sample(names, min(3, len(names))):
                try:
                    db.execute(f"UPDATE {table} SET {name} = ?",
                               (dice.choice(HOSTILE),))
                except sqlite3.Error:
                    pass  # the schema's own rules stand in the way
            values = [dice.choice(HOSTILE) for _ in names]
            marks = ",".join("?" * len(names))
            try:
                db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})",
                           values)
            except sqlite3.Error:
                pass
    edit(path, change)


def is_told(done):
    """An exit code of ours, no signal, no assertion, no sanitizer."""
    said = done.stdout + done.stderr
    assert 0 <= done.returncode < 128, (done.returncode, said)
    assert "Sanitizer" not in said and "runtime error" not in said, said
    assert "ssert" not in said, said
    assert "\x1b" not in said, repr(said)
    return done


LOOKS = [("status", "n"), ("list",), ("why", "n"), ("status", "--json", "n"),
         ("list", "--json"), ("doctor",)]
CHANGES = [("try", "n"), ("run", "-w", "200ms", "n", "--", "true"),
           ("try", "other", "--", "true"), ("semaphore", "n"),
           ("latch", "n"), ("force-release", "--yes", "--reason", "x", "n")]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_no_program_of_ours_wrote(sqlite, seed):
    dice = random.Random(seed)
    path = sqlite.path("locks.db")
    assert sqlite.run("try", "n").returncode == 0
    sqlite.acquire("-t", "20s", "n")
    for _ in range(3):
        spoil(path, dice)
        for args in dice.sample(LOOKS, 2) + dice.sample(CHANGES, 2):
            is_told(sqlite.run(*args, timeout=20))


def test_a_file_that_is_no_database_is_refused(sqlite):
    with open(sqlite.path("locks.db"), "wb") as file:
        file.write(b"not a database\n" * 1000)
    os.chmod(sqlite.path("locks.db"), 0o600)
    done = is_told(sqlite.run("try", "n"))
    assert done.returncode not in (0, 75)
    assert "locks.db" in done.stderr


def test_a_torn_file_is_refused(sqlite):
    assert sqlite.run("try", "n").returncode == 0
    path = sqlite.path("locks.db")
    db = sqlite3.connect(path)  # what the log has would make it whole again
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    size = os.path.getsize(path)
    assert size > 1024
    with open(path, "r+b") as file:
        file.seek(1024)
        file.write(b"\xa5" * (size - 1024))
    done = is_told(sqlite.run("try", "n"))
    assert done.returncode not in (0, 75), done.stderr


def test_a_claim_of_the_far_future_says_so_in_json(sqlite):
    """Whatever the numbers are, what is printed is JSON."""
    sqlite.hold("n")

    def change(db):
        db.execute("UPDATE claim SET until = ?", (2 ** 63 - 1,))
    edit(sqlite.path("locks.db"), change)
    done = is_told(sqlite.run("status", "--json", "n"))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["held"] and said["holders"][0]["left_ms"] > 0, said


def test_a_waiter_of_a_rank_that_is_none_is_met_once(sqlite):
    """Its rank is read as 0 and sorts behind all numbers, so it stands behind
    itself; it wants more permits than there are, so it is passed over."""
    sqlite.acquire("--kind", "semaphore", "--capacity", "2", "n")

    def change(db):
        names = [c[0] for c in columns(db, "claim")]
        row = dict(zip(names, db.execute("SELECT * FROM claim").fetchone()))
        row.update(id=None, request=b"r" * 16, state=0, rank="x", permits=10)
        db.execute(f"INSERT INTO claim({','.join(row)}) VALUES"
                   f"({','.join('?' * len(row))})", list(row.values()))
    edit(sqlite.path("locks.db"), change)
    done = is_told(sqlite.run("semaphore", "--set", "3", "n", timeout=20))
    assert done.returncode == 0, done.stderr
    assert is_told(sqlite.run("try", "--kind", "semaphore", "--capacity", "3",
                              "n", "--", "true", timeout=20)).returncode == 0
