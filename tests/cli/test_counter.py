"""N processes × M increments of a counter that only the lock protects."""

import os

import pytest

WORKERS, TIMES = 8, 25

WORK = ('i=0; while [ $i -lt %d ]; do i=$((i+1)); "$0" run -q -w 60s counter '
        '-- sh -c \'read n <"$0"; echo $((n+1)) >"$0"; '
        'echo $SNIB_TOKEN >>"$0.tokens"\' "$1" || exit 1; done' % TIMES)


def test_no_increment_is_lost(store):
    path = store.path("counter")
    with open(path, "w") as f:
        f.write("0\n")
    import subprocess
    workers = [subprocess.Popen(["sh", "-c", WORK, store.binary, path],
                                env=store.env) for _ in range(WORKERS)]
    assert [w.wait(240) for w in workers] == [0] * WORKERS
    assert int(open(path).read()) == WORKERS * TIMES
    tokens = [int(line) for line in open(path + ".tokens")]
    assert tokens == sorted(set(tokens)), "each section a higher token"


@pytest.mark.parametrize("who", ["leash", "keeper"])
def test_no_section_overlaps_while_our_processes_are_killed(store, who):
    """Every third snib loses one of its processes in the middle of its
    section; the next holder looks whether that section still runs. (In a file
    a waiter takes over from a dead process at once, unless the claim says that
    a command may outlive it.)"""
    import signal
    import subprocess

    from conftest import eventually, keeper_of, kill, read_pid

    path = store.path("log")
    section = ('echo begin $$ >>"$0"; if [ -n "$1" ]; then echo $$ >"$1"; '
               'sleep 1000; fi; echo end $$ >>"$0"')
    for i in range(9):
        mark = store.path("mark%d" % i) if i % 3 == 0 else ""
        p = store.start("run", "-q", "-t", "1s", "a", "--", "sh", "-c",
                         section, path, mark)
        if mark:
            pid = read_pid(mark)
            q = store.start("run", "-q", "a", "--", "sh", "-c",
                             'test -e /proc/"$1" && grep -q "^State:.*[RSDT] "'
                             ' /proc/"$1"/status && echo ALIVE >>"$0"; true',
                             path, str(pid))
            eventually(lambda: store.waiters("a") == 1)
            kill(p.pid if who == "leash" else keeper_of(p.pid),
                 signal.SIGKILL)
            assert q.wait(20) == 0
        p.wait(20)
    assert "ALIVE" not in open(path).read()
    assert os.path.getsize(path) > 0
    assert subprocess.run(["grep", "-c", "end", path],
                          stdout=subprocess.PIPE).stdout == b"6\n"
