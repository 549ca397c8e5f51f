"""Between the grant and the command: the supervisor is stopped there for longer
than the lease. A library in front of libc's stops it, and makes it slow where
the command could begin before it is ended."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import eventually, kill, stopped

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The only pair of streams is the gate. */
int socketpair(int domain, int type, int protocol, int fds[2])
{
    int (*real)(int, int, int, int *) = dlsym(RTLD_NEXT, "socketpair");
    int result = real(domain, type, protocol, fds);

    if ((type & 0xf) == SOCK_STREAM) {
        kill(getpid(), SIGSTOP);
    }
    return result;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    ssize_t result = real(fd, bytes, size, flags);
    struct timespec pause = {.tv_nsec = 300000000};

    if (size == 1) { /* the gate is open */
        nanosleep(&pause, NULL);
    }
    return result;
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library in front of libc (cc)")
    folder = tmp_path_factory.mktemp("gate")
    source, made = folder / "gate.c", folder / "gate.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"],
                   check=True)
    return str(made)


def at_the_gate(snib, shim, mark, *options):
    p = snib.start("run", "-q", *options, "a", "--", "sh", "-c",
                   'echo ran >"$0"; exit 3', mark, env={"LD_PRELOAD": shim})
    eventually(lambda: stopped(p.pid), "stopped at the gate")
    return p


def test_a_lease_that_ends_before_the_gate_is_open_begins_nothing(redis, shim):
    mark = redis.path("ran")
    p = at_the_gate(redis, shim, mark, "-t", "2s")
    redis.server.freeze()
    frozen = time.monotonic()
    eventually(lambda: time.monotonic() - frozen > 2.1, "the lease is over")
    kill(p.pid, signal.SIGCONT)
    eventually(lambda: not stopped(p.pid), "continued")
    # Frozen a while longer: there is no answer that could end it.
    eventually(lambda: time.monotonic() - frozen > 3, "time to begin")
    redis.server.thaw()
    said = p.communicate(timeout=15)[1]
    assert not os.path.exists(mark), "it began under no lease"
    assert p.returncode == 76 and "lock lost" in said


def test_a_lease_that_is_renewed_meanwhile_is_none_that_ended(store, shim):
    mark = store.path("ran")
    p = at_the_gate(store, shim, mark, "-t", "1s")
    stopped_at = time.monotonic()
    eventually(lambda: time.monotonic() - stopped_at > 2, "two leases")
    kill(p.pid, signal.SIGCONT)
    said = p.communicate(timeout=15)[1]
    assert p.returncode == 3 and said == "" and os.path.exists(mark)
