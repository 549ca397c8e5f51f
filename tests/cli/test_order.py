"""Several names in one order, whatever order they are given in."""

import os
import subprocess
import time

import pytest

LOOP = ('n=0; while [ $n -lt 8 ]; do n=$((n+1)); '
        '"$0" run -q -w 30s "$@" -- true || exit 1; done')


def test_names_in_all_orders_at_the_same_time(store):
    started = [store.start_shell(LOOP, *names)
               for names in (("a", "b", "c"), ("c", "b", "a"), ("b", "c"),
                             ("c", "a"))]
    end = time.monotonic() + 90
    while any(p.poll() is None for p in started):
        assert time.monotonic() < end
        assert store.run("try", "-q", "c", "a", "b", "--", "true"
                         ).returncode in (0, 75)
    assert [p.returncode for p in started] == [0] * 4
    for name in "abc":
        assert not store.held(name)


def test_try_says_who_is_in_the_way(store):
    store.hold("b", "--reason", "release 4.2")
    done = store.run("try", "a", "b", "c", "--", "true")
    assert done.returncode == 75
    assert "b: not acquired: " in done.stderr
    assert "release 4.2" in done.stderr
    assert not store.held("a") and not store.held("c")


def test_the_library_and_the_command_line_have_one_order(store):
    """The example's threads lock two accounts in both orders; meanwhile the
    command line does."""
    example = os.path.join(os.environ.get("SNIB_BUILD_DIR", "build/dev"),
                           "examples", "multi")
    if not os.path.exists(example):
        pytest.skip("the examples are not built")
    names = ("account:2", "account:1")
    started = [store.start_shell(LOOP, *names),
               store.start_shell(LOOP, *reversed(names))]
    for _ in range(3):
        done = subprocess.run([example], env=store.env, timeout=60,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert [p.wait(timeout=60) for p in started] == [0, 0]
