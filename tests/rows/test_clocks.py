"""§4.4: clocks and the client's machine (F-110 … F-125).

Where the store's clock breaks exclusion, the row shows that it does, that the
loss is told, and that the fence holds."""

import ctypes
import os
import time

import pytest

from conftest import limit_descriptors, ms_since, wait_renewed
from harness.pulse import late_ms
from harness.checks import Rising, holders, read_tally
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def test_F_110_server_clock_forward_breaks_exclusion_and_the_fence_holds(
        clocked, drivers, fence):
    """Two holders at once: documented. The second outranks the first."""
    server, clock = clocked
    one, two = drivers(server.url), drivers(server.url)
    first = one.acquire(one.lock("n", lease_ms=10000, fixed=True))
    seen = fence.begin(first.token)
    clock.step_real(20)
    second = two.acquire(two.lock("n", lease_ms=10000), wait_ms=3000)
    assert first.status().held and second.status().held  # the hole
    assert second.token > first.token
    again = fence.begin(second.token)
    assert not fence.write(first.token, seen + 1)
    assert fence.write(second.token, again + 1)
    second.release()
    first.start_release().answer()


def test_F_110_renewing_holder_is_told_after_a_step_forward(
        clocked, drivers):
    server, clock = clocked
    one, two = drivers(server.url), drivers(server.url)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    clock.step_real(20)
    taken = two.acquire(two.lock("n"), wait_ms=3000)
    told = one.wait_event("change", ticket=grant.ticket, state="lost")
    assert told.reason in ("stolen", "forgotten", "expired", "paused")
    assert taken.status().held and taken.token > grant.token
    grant.start_release().answer()
    taken.release()


def test_F_111_server_clock_back_leaves_waits_bounded_and_tokens_rising(
        clocked, drivers, fence):
    server, clock = clocked
    one, two = drivers(server.url), drivers(server.url)
    rising = Rising()
    grant = one.acquire(one.lock("n", lease_ms=1500))
    rising(grant.token)
    clock.step_real(-60)
    waiting = two.start_acquire(two.lock("n"), wait_ms=400)
    answer = waiting.answer()
    assert answer.err == "TIMEOUT" and answer.took_ms < 500 + late_ms()
    # Renewals go on; the server keeps it for longer, which is safe.
    wait_renewed(grant)
    assert fence.begin(grant.token) is not None
    assert fence.write(grant.token, 1)
    grant.release()
    taken = two.acquire("n", wait_ms=2000)
    rising(taken.token)
    taken.release()
    assert holders(server, "n") == 0


def test_F_112_strobing_server_clock_loses_no_count(
        clocked, drivers, tmp_path):
    """±200 ms, as fast as we can: less than the leases, so exact."""
    server, clock = clocked
    jobs = []
    for _ in range(2):
        driver = drivers(server.url)
        jobs.append(driver.start(
            "count", lock=driver.lock("n", lease_ms=10000),
            path=tmp_path / "tally", rounds=150, hold_us=500))
    ahead = False
    while not all(job.done() for job in jobs):
        clock.step_real(-0.2 if ahead else 0.2)
        ahead = not ahead
        server.command("PING")
    assert [job.wait().fallen_tokens for job in jobs] == [0, 0]
    assert read_tally(tmp_path / "tally")[0] == 300


def test_F_113_client_wall_clock_steps_have_no_effect(
        redis, shims, driver_with, clean):
    """An hour back and forth: never lost, renewals on time."""
    clock = shims()
    one = driver_with(redis.url, env=clock.env)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    for step in (-3600, 7200, -3600):
        clock.step_real(step)
        wait_renewed(grant)
        assert grant.status().held
    assert "lost" not in [change.state for change in grant.changes()]
    grant.release()


def test_F_115_suspend_past_the_lease_is_lost_at_the_first_look(
        redis, shims, driver_with, drivers, clean):
    """Only BOOTTIME moves, as in a suspend; no timer has run."""
    clock = shims()
    one = driver_with(redis.url, env=clock.env)
    grant = one.acquire(one.lock("n", lease_ms=10000))
    assert grant.status().held
    clock.step_boot(60)
    status = grant.status()
    assert not status.held and status.state == "lost"
    assert grant.start_release().answer().err == "LOST"


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def test_F_117_frozen_keeper_thread_does_not_hide_the_deadline(
        redis, drivers, expires):
    """One thread stands still (ptrace); the caller's own look still compares
    the clock."""
    one = drivers()
    for thread in ("main", "look"):
        one.call("ping", on=thread)
    before = set(os.listdir(f"/proc/{one.pid}/task"))
    one.open(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=800))
    new = set(os.listdir(f"/proc/{one.pid}/task")) - before
    assert new, "no thread of the library's own"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
    seized = []
    try:
        for tid in map(int, new):
            if libc.ptrace(PTRACE_SEIZE, tid, None, None):
                pytest.skip("ptrace is not permitted here")
            seized.append(tid)
            libc.ptrace(PTRACE_INTERRUPT, tid, None, None)
            os.waitpid(tid, 0x40000000)  # __WALL
        begun = boot_ns()
        wait_until(lambda: not grant.status().held, 2, "lost by the deadline")
        assert ms_since(begun) <= 800 + late_ms()
        assert grant.status().state == "lost"
    finally:
        for tid in seized:
            libc.ptrace(PTRACE_DETACH, tid, None, None)
    grant.start_release().answer()


def test_F_120_each_failing_system_call_is_an_error_and_no_crash(
        redis, shims, driver_with, clean):
    """socket … pthread_create: the n-th fails once, n = 1, 2, … until no call
    is left that could. Each time the next acquire works."""
    calls = shims()
    one = driver_with(redis.url, env=calls.env, request_ms=300)
    hit = set()
    for n in range(1, 200):
        calls.fail_at(n)
        opened = one.ask("open", id=f"x{n}", url=redis.url, request_ms=300)
        if opened.ok:
            one.lock("n", id=f"l{n}", client=f"x{n}", lease_ms=1000)
            first = one.start_acquire(f"l{n}", wait_ms=1500)
            if first.answer().ok:
                first.wait().start_release().answer()
        failed = calls.failed()
        calls.fail_at(0)
        if opened.ok:
            second = one.acquire(f"l{n}", wait_ms=3000)
            assert second.status().held, failed
            second.release()
            one.call("stop", id=f"x{n}")
            one.call("free", id=f"x{n}")
        assert one.alive(), failed
        if not failed:
            break
        hit.add(failed)
    assert {"socket", "connect", "send", "recv"} <= hit, hit


def test_F_121_signals_all_the_time_are_harmless(
        redis, shims, driver_with, tmp_path, clean):
    """A SIGALRM each millisecond, without SA_RESTART."""
    one = driver_with(redis.url,
                      env={**shims().env, "SNIB_SHIM_STORM": "1"})
    two = driver_with(redis.url)
    jobs = [driver.start("count", lock=driver.lock("n"),
                         path=tmp_path / "tally", rounds=200, hold_us=300)
            for driver in (one, two)]
    assert [job.wait(30).fallen_tokens for job in jobs] == [0, 0]
    assert read_tally(tmp_path / "tally")[0] == 400


def test_F_125_threads_with_64_KiB_of_stack_are_enough(
        redis, driver_with, tmp_path, clean):
    """glibc's default for threads is the soft limit; libsnib's own too."""
    one = driver_with(redis.url, words=["prlimit", "--stack=65536:"])
    job = one.start("count", lock=one.lock("n"), path=tmp_path / "tally",
                    rounds=50)
    assert job.wait().done == 50


def test_F_065_no_descriptors_left_keeps_the_lock_and_is_a_clear_error(
        redis, drivers, clean):
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=1000))
    limit_descriptors(one.pid, len(os.listdir(f"/proc/{one.pid}/fd")))
    answer = one.ask("open", id="second", url=redis.url)
    if answer.ok:
        one.lock("m", id="m", client="second")
        answer = one.start_acquire("m", wait_ms=300).answer()
    assert not answer.ok and answer.text, answer
    stays(lambda: grant.status().held, 1.5, "held past its first lease")
    limit_descriptors(one.pid, 1024)
    grant.release()


def test_server_clock_beyond_the_range_of_tokens_is_refused_before_it_writes(
        clocked, drivers):
    """The year 2248: a token of that clock is 2^53. Set right again, the
    server works at once. (The mark has expired by then. So of what was asked
    without a script nobody knows more than that it was sent.)"""
    server, clock = clocked
    one = drivers(server.url)
    one.acquire(one.lock("n"), wait_ms=2000).release()
    away = 2 ** 53 // 1024 // 1000 + 60 - int(server.command("TIME")[0])
    clock.step_real(away)
    answer = one.start_acquire(one.lock("k"), wait_ms=2000).answer()
    assert answer.err == "UNKNOWN", answer
    assert holders(server, "k") == 0
    by_script = one.lock("m", no_local_pass=True)
    answer = one.start_acquire(by_script, wait_ms=2000).answer()
    assert answer.err == "STORE" and "SNIBCLOCK" in answer.text
    assert server.command("EXISTS", "snib:{m}", "snib:{m}:t") == 0
    clock.step_real(-away)
    # Valkey looks at the clock now and then.
    server.wait_for(lambda s: int(s.command("TIME")[0]) < time.time() + 60, 10)
    one.acquire("m", wait_ms=5000).release()
