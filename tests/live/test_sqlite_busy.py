"""SQLite: limits are kept while another process keeps the file's write lock
(P8). A Python connection of this process is that other one."""

import contextlib
import os
import sqlite3
import time

import pytest

from harness.driver import Driver, driver_missing
from harness.pulse import late_ms
from harness.shim import ShimMissing, build_shim
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(driver_missing()),
                                reason=driver_missing())

LIMIT_MS = 50


@contextlib.contextmanager
def writing(path):
    """Inside, nobody else can write."""
    other = sqlite3.connect(path, isolation_level=None, timeout=5)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "locks.db")


def calls(driver, lock):
    """Some impatient calls: how long each took, in ms, and their answers."""
    answers = [driver.start_acquire(lock, wait_ms=LIMIT_MS).answer(10)
               for _ in range(8)]
    assert all(not answer.ok and answer.took_ms >= LIMIT_MS - 1
               for answer in answers), answers
    return [answer.took_ms for answer in answers], answers


def test_a_call_alone_ends_by_its_limit_and_blames_the_store(
        store, drivers):
    one = drivers(f"sqlite:{store}")
    lock = one.lock("n")
    one.acquire(lock, wait_ms=2000).release()
    with writing(store):
        took, answers = calls(one, lock)
    assert max(took) <= LIMIT_MS + late_ms(), took
    # Nobody holds the lock. (The limit may come first, now and then.)
    assert sum(answer.err == "STORE" for answer in answers) >= 4, answers
    one.acquire(lock, wait_ms=2000).release()


def test_a_call_beside_a_patient_one_ends_by_its_limit(
        store, drivers):
    """One thread of the client executes for all: it is the patient one's."""
    one = drivers(f"sqlite:{store}")
    lock, long = one.lock("n"), one.lock("long")
    one.acquire(lock, wait_ms=2000).release()
    with writing(store):
        patient = one.start_acquire(long, on="patient", wait_ms=20000)
        took, _ = calls(one, lock)
        assert not patient.done()
    assert max(took) <= LIMIT_MS + late_ms(), took
    patient.wait(timeout=5).release()
    one.acquire(lock, wait_ms=2000).release()


def test_waiters_end_by_their_limits_though_they_clean_up_for_others(
        store, drivers):
    """Whose limit has passed leaves a cancel behind, and a thread of the same
    client that still waits executes it: its own limit counts all the same."""
    one, two = drivers(f"sqlite:{store}"), drivers(f"sqlite:{store}")
    names = [f"n{number}" for number in range(6)]
    held = [two.acquire(two.lock(name, lease_ms=60000), wait_ms=2000)
            for name in names]
    locks = [one.lock(name) for name in names]
    waiting = [one.start_acquire(lock, on=name, wait_ms=400 + 10 * number)
               for number, (lock, name) in enumerate(zip(locks, names))]
    for name in names:
        wait_until(lambda: two.call("inspect", client="c", name=name).waiters,
                   5, "it is in the queue")
    with writing(store):
        answers = [call.answer(10) for call in waiting]
    # STORE: who is in the way is told, when that is known by then
    assert {answer.err for answer in answers} <= {"TIMEOUT", "UNKNOWN", "STORE"}
    late = [answer.took_ms - 400 - 10 * number
            for number, answer in enumerate(answers)]
    # the cancel's answer is waited for a fifth of request_ms
    assert max(late) <= 400 + late_ms(), late
    for grant in held:
        grant.release()


@pytest.mark.parametrize("wait_ms", [0, 500, 1000, 1500, 2500])
def test_the_limit_is_kept_and_the_process_in_the_way_is_named(
        wait_ms, store, drivers):
    """Nothing was applied, so nobody says that it may have been."""
    one = drivers(f"sqlite:{store}", request_ms=1200)
    lock = one.lock("n")
    one.acquire(lock, wait_ms=2000).release()
    limit = wait_ms or 1200  # a try: request_ms
    with writing(store):
        for _ in range(3):
            answer = one.start_acquire(lock, wait_ms=wait_ms).answer(10)
            assert answer.err == "STORE", answer
            assert f"process {os.getpid()} " in answer.text, answer
            assert limit - 1 <= answer.took_ms <= limit + late_ms(), answer
    # Nothing of it is left: not in the queue, and not in the client's way.
    assert not one.call("inspect", client="c", name="n").waiters
    one.acquire(lock, wait_ms=0).release()


@pytest.fixture
def crowded(tmp_path, store):
    """A client on a machine where who yields comes back after 400 ms."""
    try:
        library = build_shim(tmp_path)
    except ShimMissing as why:
        pytest.skip(str(why))
    driver = Driver(env={"LD_PRELOAD": library, "SNIB_SHIM_YIELD_MS": "400"})
    driver.open(f"sqlite:{store}")
    yield driver
    driver.close()


def test_who_waits_for_the_file_on_a_crowded_machine_ends_by_the_limit(
        store, crowded):
    """A yield that came back after the limit, by more than the answer is waited
    for, made it unknown whether anything was done. Now one finds out that it is
    crowded, and there is no other for a second."""
    lock = crowded.lock("n")
    crowded.acquire(lock, wait_ms=2000).release()
    with writing(store):
        for _ in range(2):
            answer = crowded.start_acquire(lock, wait_ms=500).answer(10)
            assert answer.err == "STORE", answer
            assert 499 <= answer.took_ms <= 500 + late_ms(), answer
    crowded.acquire(lock, wait_ms=0).release()


def test_a_started_acquire_ends_by_its_limit_and_names_the_process(
        store, drivers):
    one = drivers(f"sqlite:{store}")
    lock = one.lock("n")
    one.acquire(lock, wait_ms=2000).release()
    with writing(store):
        one.call("start", id="s", lock=lock, wait_ms=1000)
        told = one.wait_event("refused")
        assert told["err"] == "STORE", told
        assert f"process {os.getpid()} " in told["text"], told
    one.acquire(lock, wait_ms=0).release()


def test_a_client_that_got_nothing_is_freed_at_once(store, drivers):
    one = drivers(f"sqlite:{store}")
    lock = one.lock("n")
    one.acquire(lock, wait_ms=2000).release()
    with writing(store):
        answer = one.start_acquire(lock, wait_ms=1000).answer(10)
        assert not answer.ok
        one.call("lock_free", id=lock)
        began = time.monotonic()
        one.call("free", id="c")
        assert time.monotonic() - began < 1


def test_a_cancelled_acquire_that_never_got_there_leaves_nothing(
        store, drivers):
    """Nor does it keep the client from ending: there is nothing to undo."""
    one = drivers(f"sqlite:{store}")
    lock = one.lock("n")
    one.acquire(lock, wait_ms=2000).release()
    with writing(store):
        one.call("start", id="s", lock=lock, wait_ms=20000)
        wait_until(lambda: "inside a write" in one.call(
            "store_status", id="c").said, 5, "it has been tried")
        one.call("cancel", id="s")
        assert one.wait_event("refused")["err"] in ("CANCELLED", "UNKNOWN")
        one.call("lock_free", id=lock)
        began = time.monotonic()
        one.call("free", id="c")
        assert time.monotonic() - began < 1
