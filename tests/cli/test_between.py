"""Between two steps of a supervisor's turn: it is stopped there, and what it has
read is old when it goes on. A library in front of libc's stops it, where a file
says so, and writes down what the two processes of snib tell each other."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import eventually, kill, read_pid, stopped

# SNIB_BETWEEN names a folder. In the supervisor a file there stops it at the
# n-th call from then on, n being what stands in it:
#   clock    before CLOCK_BOOTTIME is read
#   signals  behind the reading of signals
#   told     behind a word to the holder
# "says.sup" and "says.holder" have a line for each word: its number in
# enum plan_message_kind.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char folder[200];
static pid_t supervisor;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SNIB_BETWEEN");

    if (path != NULL) {
        snprintf(folder, sizeof folder, "%s", path);
        supervisor = getpid();
        unsetenv("SNIB_BETWEEN"); /* not for the command */
    }
}

static int open_file(const char *name, int flags)
{
    char path[300];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

static void may_stop(const char *point)
{
    char path[300], digit = 0;
    int fd;

    if (supervisor == 0 || getpid() != supervisor) {
        return;
    }
    fd = open_file(point, O_RDWR);
    if (fd < 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, point);
    if (syscall(SYS_read, fd, &digit, 1) == 1 && digit == '1') {
        unlink(path);
        kill(supervisor, SIGSTOP);
    } else if (digit > '1') {
        digit--;
        pwrite(fd, &digit, 1, 0);
    }
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock == CLOCK_BOOTTIME) {
        may_stop("clock");
    }
    return (int)syscall(SYS_clock_gettime, clock, ret);
}

ssize_t read(int fd, void *bytes, size_t size)
{
    ssize_t result = syscall(SYS_read, fd, bytes, size);

    if (size == 8 * sizeof(struct signalfd_siginfo) && result > 0) {
        may_stop("signals");
    }
    return result;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    ssize_t result = syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
    socklen_t length = sizeof(int);
    int type = 0, file;
    int32_t kind;
    char line[16];

    if (supervisor == 0 || result <= 0 || size < 16 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
        type != SOCK_SEQPACKET) {
        return result;
    }
    memcpy(&kind, bytes, sizeof kind);
    file = open_file(getpid() == supervisor ? "says.sup" : "says.holder",
                     O_WRONLY | O_CREAT | O_APPEND);
    write(file, line, snprintf(line, sizeof line, "%d\n", (int)kind));
    close(file);
    may_stop("told");
    return result;
}
"""

GRANT, LOST, STOPPED, HERE = 0, 2, 8, 9

# Told of its end by a file; 3 is its status.
COMMAND = ('echo $$ >"$0.new"; mv "$0.new" "$0"; '
           'while [ ! -e "$0.end" ]; do sleep 0.01; done; exit 3')


class Between:
    """A snib run with the library before it."""

    def __init__(self, snib, library, folder):
        self.snib, self.folder = snib, str(folder)
        self.env = {"LD_PRELOAD": library, "SNIB_BETWEEN": self.folder}

    def start(self, *args):
        return self.snib.start("run", "-q", *args, env=self.env)

    def stop_at(self, point, nth=1):
        path = os.path.join(self.folder, point)
        with open(path + ".new", "w") as file:
            file.write(str(nth))
        os.rename(path + ".new", path)

    def says(self, who):
        try:
            with open(os.path.join(self.folder, "says." + who)) as file:
                return [int(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library in front of libc (cc)")
    folder = tmp_path_factory.mktemp("between")
    source, made = folder / "between.c", folder / "between.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", made, source,
                    "-ldl"], check=True)
    return str(made)


@pytest.fixture
def between(store, library, tmp_path):
    folder = tmp_path / "points"
    folder.mkdir()
    return Between(store, library, folder)


def go_on(p):
    kill(p.pid, signal.SIGCONT)


def two_leases():
    """Of a second each; they are renewed by the holder."""
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 2.1, "two leases")


def run_for_a_second(between):
    mark = between.snib.path("pid")
    p = between.start("-t", "1s", "a", "--", "sh", "-c", COMMAND, mark)
    read_pid(mark)
    return p, mark + ".end"


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_stop_before_any_look_at_the_clock_costs_nothing(between, nth):
    """The page and the clock are looked at in every turn: a lease that is
    renewed between the two is none that ended."""
    p, end = run_for_a_second(between)
    between.stop_at("clock", nth)
    kill(p.pid, signal.SIGWINCH)  # a turn
    eventually(lambda: stopped(p.pid), "stopped at the clock")
    two_leases()
    go_on(p)
    open(end, "w").close()
    said = p.communicate(timeout=15)[1]
    assert p.returncode == 3 and said == ""


def test_a_command_that_ended_in_time_is_reaped_late(between):
    """The supervisor has looked at the page, and is stopped before it asks how
    the command ended."""
    p, end = run_for_a_second(between)
    between.stop_at("signals")
    open(end, "w").close()
    eventually(lambda: stopped(p.pid), "stopped behind its signals")
    two_leases()
    go_on(p)
    said = p.communicate(timeout=15)[1]
    assert p.returncode == 3 and said == ""


def lose_an_offer(between):
    """A waiter that is stopped, to which a grant is offered that is then taken
    away by force. None: the offer's second was over before that."""
    snib = between.snib
    first = snib.hold("a")
    mark = snib.path("ran")
    p = between.start("-t", "2s", "a", "--", "sh", "-c", 'echo ran >"$0"',
                      mark)
    eventually(lambda: snib.waiters("a") == 1, "it waits")
    between.stop_at("signals")
    kill(p.pid, signal.SIGTSTP)
    eventually(lambda: stopped(p.pid), "stopped behind its signals")
    kill(first.command, signal.SIGKILL)
    eventually(lambda: between.says("holder") == [GRANT], "an offer")
    snib.run("force-release", "--yes", "--reason", "x", "a")
    first.wait(10)
    began = time.monotonic()
    eventually(lambda: LOST in between.says("holder") or
               time.monotonic() - began > 2, "its loss")
    if between.says("holder") == [GRANT, LOST]:
        return p, mark
    kill(p.pid, signal.SIGKILL)
    go_on(p)
    p.wait(10)
    return None


def test_the_loss_of_an_earlier_offer_is_none_of_the_next(between):
    """Grant and loss lie unread before the supervisor. It has Ctrl-Z in its
    hands, says that it stops and that it is here again, and the lock is offered
    once more: that one it takes, and the old loss says nothing of it."""
    for _ in range(5):
        lost = lose_an_offer(between)
        if lost:
            break
        for file in os.listdir(between.folder):
            os.unlink(os.path.join(between.folder, file))
    assert lost, "five times too slow for an offer"
    p, mark = lost
    between.stop_at("told", 2)
    go_on(p)
    eventually(lambda: between.says("sup") == [STOPPED] and stopped(p.pid),
               "stopped by Ctrl-Z")
    go_on(p)
    eventually(lambda: between.says("sup") == [STOPPED, HERE] and
               stopped(p.pid), "stopped when it has said that it is here")
    eventually(lambda: between.says("holder") == [GRANT, LOST, GRANT],
               "the next offer")
    go_on(p)
    said = p.communicate(timeout=15)[1]
    assert p.returncode == 0, said
    assert "lost" not in said and os.path.exists(mark)
