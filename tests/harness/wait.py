"""Waiting for facts. No test sleeps "to give it time"."""

import os
import time


def patience(seconds):
    """An upper bound for what should happen within so many seconds: as many
    on a quiet machine, longer by its load a CPU on a busy one."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(load, 1), 8)


def boot_ns():
    """Now, on the clock that the library's leases are counted with."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wait_until(fact, timeout=5.0, what="a condition", every=0.002):
    """Poll fact() until it is true and return its value; AssertionError after
    patience(timeout).

    The pause between two looks grows up to 20 ms: quick when the fact is
    near, cheap on a two-core machine when it is not.
    """
    deadline = time.monotonic() + patience(timeout)
    pause = every
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"not within {timeout:g} s: {what} (last seen: {value!r})")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def stays(fact, for_s, what="a condition", every=0.01):
    """Assert that fact() is true at every look during for_s seconds.

    For "never": the length of the look is part of the statement, for
    instance "until one poll after the lease".
    """
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        value = fact()
        assert value, f"did not stay so: {what} (seen: {value!r})"
        time.sleep(every)
