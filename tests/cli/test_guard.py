"""A keeper that ends the command in the place of a stopped leash. The clocks of
both are stepped close to the deadline, so that nothing hangs on luck."""

import signal

import pytest

from conftest import environment_of, eventually, kill, runs, stat_of, stopped
from harness.shim import Shim, ShimMissing, build_shim

DAY = 24 * 3600


@pytest.fixture
def clock(tmp_path):
    try:
        library = build_shim(tmp_path)
    except ShimMissing as why:
        pytest.skip(str(why))
    shim = Shim(library, tmp_path / "clocks")
    yield shim
    shim.close()


def grant_of(p):
    """What snib acquire would have printed for this run."""
    env = environment_of(p.command)
    with open(f"/proc/{p.keeper}/stat") as file:
        started = file.read().rpartition(")")[2].split()[19]
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read()[:18]
    address = env["SNIB_HELD"].rpartition("=")[2]
    return ":".join(("snib1", address, f"{p.keeper}.{started}",
                     env["SNIB_TOKEN"], boot))


def hold_with(snib, clock, name):
    """Held by a command whose snib, alone, has this clock."""
    snib.env.update(clock.env)
    p = snib.hold(name, "-t", "24h")
    for variable in clock.env:
        snib.env.pop(variable)
    return p


def test_a_leash_that_goes_on_late_does_not_take_the_kill_for_the_commands_end(
        redis, clock):
    """The store comes back, and the lease with it, after the keeper has killed
    the command and before the leash hears of anything: exit 76, not 137."""
    p = hold_with(redis, clock, "a")
    grant = grant_of(p)
    kill(p.pid, signal.SIGSTOP)
    eventually(lambda: stopped(p.pid))
    redis.server.freeze()
    # The deadline is 1 % before the day is over, the margin 864 s.
    clock.step_boot(0.99 * DAY - 205)
    clock.step_real(0.99 * DAY - 205)
    assert redis.run("check", "-m", "0", grant).returncode == 0, \
        "wakes the keeper; the lease still runs"
    eventually(lambda: not runs(p.command), "the keeper kills it")
    redis.server.thaw()
    redis.run("renew", grant)
    kill(p.pid, signal.SIGCONT)
    _, said = p.communicate(timeout=30)
    assert p.returncode == 76, said
    assert "lock lost" in said
    assert stat_of(p.keeper) is None
