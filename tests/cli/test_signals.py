"""Signals and the terminal."""

import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import (
    eventually, keeper_of, kill, read_pid, runs, stat_of, stopped)

REPORT = ('import os, signal, sys, time\n'
          'def heard(n, f):\n'
          '    with open(sys.argv[1], "a") as o: o.write("%d\\n" % n)\n'
          'for n in (1, 2, 3, 10, 12, 15, 18, 28): signal.signal(n, heard)\n'
          'open(sys.argv[1] + ".up", "w").close()\n'
          'while True: time.sleep(0.05)\n')  # pause() misses one that came before it


def start_report(snib):
    mark = snib.path("heard")
    p = snib.start("run", "-q", "a", "--", "python3", "-c", REPORT, mark)
    eventually(lambda: os.path.exists(mark + ".up"))
    return p, mark


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "CONT"])
def test_a_signal_to_snib_reaches_the_command_once(mapped, name):
    p, mark = start_report(mapped)
    number = getattr(signal, "SIG" + name)
    p.send_signal(number)
    eventually(lambda: os.path.exists(mark))
    p.send_signal(signal.SIGUSR1 if name != "USR1" else signal.SIGUSR2)
    eventually(lambda: open(mark).read().count("\n") >= 2)
    assert open(mark).read().split().count(str(int(number))) == 1
    assert p.poll() is None


def test_term_ends_an_ordinary_command_and_frees_the_lock(store):
    p = store.hold("a")
    p.send_signal(signal.SIGTERM)
    assert p.wait(10) == 143
    assert not store.held("a")


def test_the_lock_is_released_only_after_the_whole_group_is_gone(mapped):
    """After TERM the command takes its time: the lock is held meanwhile."""
    mark = mapped.path("up")
    p = mapped.start("run", "-q", "a", "--", "sh", "-c",
                     'trap "while ! test -e $0.go; do sleep 0.02; done; exit 7"'
                     ' TERM; echo $$ >"$0"; while :; do sleep 0.02; done', mark)
    read_pid(mark)
    p.send_signal(signal.SIGTERM)
    for _ in range(50):
        assert mapped.held("a")
    open(mark + ".go", "w").close()
    assert p.wait(10) == 7
    assert not mapped.held("a")


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_a_signal_while_waiting_leaves_the_queue(store, name):
    store.hold("a")
    p = store.start("run", "-q", "a", "--", "true")
    eventually(lambda: store.waiters("a") == 1)
    number = getattr(signal, "SIG" + name)
    p.send_signal(number)
    assert p.wait(10) == 128 + number
    assert store.waiters("a") == 0


def test_a_signal_while_the_store_is_unreachable_ends_it(mapped):
    p = mapped.start("run", "-s", "redis://127.0.0.1:1", "a", "true")
    eventually(lambda: stat_of(p.pid)[0] == "S")
    p.send_signal(signal.SIGINT)
    assert p.wait(10) in (130, 69)


def test_nohup_is_honoured(mapped):
    p = mapped.start("run", "-q", "a", "--", "sleep", "1000",
                     preexec_fn=lambda: signal.signal(signal.SIGHUP,
                                                      signal.SIG_IGN))
    eventually(lambda: mapped.held("a"))
    p.send_signal(signal.SIGHUP)
    p.send_signal(signal.SIGTERM)
    assert p.wait(10) == 143


def pending(pid):
    """The signals that this process has not taken yet."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"^ShdPnd:\s*(\w+)", status.read(), re.M)[1], 16)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT,
                                    signal.SIGQUIT, signal.SIGTERM,
                                    signal.SIGTSTP])
def test_what_was_ignored_at_the_start_ends_no_wait(mapped, number):
    """nohup, and background jobs of a shell without job control."""
    other = mapped.start("run", "a", "--", "cat", stdin=subprocess.PIPE)
    eventually(lambda: mapped.held("a"))
    p = mapped.start("run", "-q", "a", "--", "true",
                     preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    eventually(lambda: mapped.waiters("a") == 1)
    p.send_signal(number)
    eventually(lambda: pending(p.pid) == 0)
    assert p.poll() is None and mapped.waiters("a") == 1
    other.stdin.close()
    assert p.wait(10) == 0 and other.wait(10) == 0


class Terminal:
    """snib as the foreground job of a terminal of its own."""

    def __init__(self, snib, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(snib.tmp)
            os.execve(snib.binary, [snib.binary, *args],
                      dict(snib.env, TERM="xterm"))
        self.seen = b""

    def type(self, keys):
        os.write(self.fd, keys)

    def read_until(self, text, times=1):
        def there():
            try:
                self.seen += os.read(self.fd, 4096)
            except BlockingIOError:
                pass
            except OSError:
                return True
            return self.seen.count(text) >= times
        os.set_blocking(self.fd, False)
        eventually(there, "%r on the terminal" % text)
        assert self.seen.count(text) >= times, self.seen

    def drain(self):
        """All that was ever seen."""
        os.set_blocking(self.fd, False)
        try:
            self.seen += os.read(self.fd, 4096)
        except BlockingIOError:
            pass
        return self.seen

    def wait(self):
        """Its exit status; .seen has all that it said."""
        def over():
            try:
                self.seen += os.read(self.fd, 4096)
            except OSError:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return [os.waitstatus_to_exitcode(status)] if pid else None
        os.set_blocking(self.fd, False)
        return eventually(over, "its end")[0]


def test_on_a_terminal_the_command_has_the_foreground(mapped):
    t = Terminal(mapped, "run", "a", "--", "sh", "-c",
                 'read line; echo "got:$line"; exit 6')
    t.type(b"hello\n")
    t.read_until(b"got:hello")
    assert t.wait() == 6


def test_ctrl_c_on_a_terminal_reaches_the_command(mapped):
    t = Terminal(mapped, "run", "a", "--", "sh", "-c",
                 'trap "exit 9" INT; echo up; while :; do sleep 0.02; done')
    t.read_until(b"up")
    t.type(b"\x03")
    assert t.wait() == 9


def test_ctrl_c_on_a_terminal_while_waiting_leaves_the_queue(mapped):
    mapped.hold("a")
    t = Terminal(mapped, "run", "a", "--", "true")
    eventually(lambda: mapped.waiters("a") == 1)
    t.read_until(b"held by")
    t.type(b"\x03")
    assert t.wait() == 130
    assert mapped.waiters("a") == 0


def test_ctrl_z_stops_both_and_the_lease_goes_on(mapped):
    """A shell would do this: it sees its job stopped, later continues it in
    the foreground."""
    mark = mapped.path("pid")
    t = Terminal(mapped, "run", "-t", "1s", "a", "--", "sh", "-c",
                 'echo $$ >"$0"; echo up; read x; echo "got:$x"', mark)
    command = read_pid(mark)
    t.read_until(b"up")
    t.type(b"\x1a")
    # The session leader has no shell above it; the stop is seen all the same.
    eventually(lambda: stopped(command), "command stopped")
    eventually(lambda: stopped(t.pid), "leash stopped")
    token = mapped.status("a")["token"]
    since = os.times().elapsed
    while os.times().elapsed - since < 2.5:
        view = mapped.status("a")
        assert view["held"] and view["token"] == token
    os.kill(t.pid, signal.SIGCONT)
    t.type(b"on\n")
    t.read_until(b"got:on")
    assert t.wait() == 0


def test_ctrl_c_on_a_terminal_ends_a_leader_and_its_command(mapped):
    """The command has the terminal, so only it hears the key: what it died of
    was meant for both."""
    t = Terminal(mapped, "elect", "--pause", "0", "a", "--", "sh", "-c",
                 'echo "up $SNIB_TERM"; exec sleep 1000')
    t.read_until(b"up ")
    t.type(b"\x03")
    assert t.wait() == 130
    assert not mapped.held("a")


def test_each_term_of_a_leader_has_the_terminal(mapped):
    t = Terminal(mapped, "elect", "-q", "--pause", "0", "a", "--", "sh", "-c",
                 'echo ready; read line; echo "got:$line"; exit 1')
    for word in (b"one", b"two", b"three"):
        t.type(word + b"\n")
        t.read_until(b"got:" + word)
    # Between two terms the key would be nobody's.
    t.read_until(b"ready", 4)
    t.type(b"\x03")
    assert t.wait() == 130
    assert not mapped.held("a")


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(mapped):
    script = '"$0" run -q a -- sh -c "read x; echo got:\\$x; exit 3" | cat'
    pid, fd = pty.fork()
    if pid == 0:
        os.execve("/bin/sh", ["sh", "-c", script, mapped.binary], mapped.env)
    t = Terminal.__new__(Terminal)
    t.pid, t.fd, t.seen = pid, fd, b""
    t.type(b"yes\n")
    t.read_until(b"got:yes")
    assert t.wait() == 0


def test_output_can_be_captured_while_the_keeper_lives(mapped):
    done = subprocess.run(["sh", "-c", 'x=$("$0" run a -- echo hi); echo [$x]',
                           mapped.binary], env=mapped.env, timeout=30,
                          stdout=subprocess.PIPE, text=True)
    assert done.stdout == "[hi]\n"


def test_kill_of_everything_by_term_ends_gently(mapped):
    """systemd stops a unit so: TERM to every process at once."""
    mark = mapped.path("up")
    p = mapped.start("run", "-q", "a", "--", "sh", "-c",
                     'trap \'echo bye >"$0.bye"; exit 4\' TERM; echo $$ >"$0"; '
                     'while :; do sleep 0.02; done', mark)
    command = read_pid(mark)
    from conftest import keeper_of
    for pid in (keeper_of(p.pid), command, p.pid):
        kill(pid, signal.SIGTERM)
    assert p.wait(10) == 4
    assert open(mark + ".bye").read() == "bye\n"
    assert not runs(command)


# -- to the process that others are shown --------------------------------------------

# Ends when no TERM has come for a second after the first.
COUNT = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with open(sys.argv[1] + ".new", "w") as f:
    f.write("begun\\n")
import os
os.rename(sys.argv[1] + ".new", sys.argv[1])
signal.sigwait([signal.SIGTERM])
count = 1
while signal.sigtimedwait([signal.SIGTERM], 1):
    count += 1
with open(sys.argv[1], "a") as f:
    f.write("%d TERM\\n" % count)
"""


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_to_the_holder_process_ends_the_command_and_frees_the_lock(store, sig):
    """Its number is what `status` tells; whoever kills that means the job."""
    p = store.hold("a", "-t", "1m")
    holder, = store.status("a")["holders"]
    assert holder["pid"] == p.keeper
    kill(holder["pid"], sig)
    assert p.wait(20) == 128 + sig
    assert not runs(p.command) and not store.held("a")


def test_to_the_holder_process_of_who_waits_leaves_the_queue(mapped):
    mapped.hold("a")
    p = mapped.start("run", "a", "--", "true")
    eventually(lambda: mapped.waiters("a") == 1)
    kill(mapped.status("a")["waiters"][0]["pid"], signal.SIGTERM)
    assert p.wait(20) == 143
    assert mapped.waiters("a") == 0


def test_to_all_processes_at_once_reaches_the_command_once(mapped):
    """As when a unit is stopped: a second TERM often means "at once"."""
    log = mapped.path("log")
    p = mapped.start("run", "a", "--", "python3", "-c", COUNT, log)
    eventually(lambda: os.path.exists(log))
    keeper = eventually(lambda: keeper_of(p.pid))
    for pid in (keeper, p.pid):
        kill(pid, signal.SIGTERM)
    assert p.wait(20) == 0
    with open(log) as file:
        assert file.read() == "begun\n1 TERM\n"
