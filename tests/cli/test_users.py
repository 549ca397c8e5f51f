"""One lock file for several users of a host: a directory that root made for a
group. And who has a file of his own is told that others are not excluded.

Real users by setpriv, the places of the host in a mount namespace: needs root."""

import json
import os
import pty
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import Snib, eventually, read_all, read_pid, runs

GROUP = 54321
ROOT, NOBODY, DAEMON, BIN = 0, 65534, 1, 2

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root to be several users")


@pytest.fixture
def host(snib_bin):
    """A directory that all users reach, with a copy of the program."""
    path = tempfile.mkdtemp(prefix="snib-users-", dir="/tmp")
    os.chmod(path, 0o755)
    shutil.copy(snib_bin, path + "/snib")
    os.chmod(path + "/snib", 0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def shared(host):
    """A directory as `install -d -m 2770 -g GROUP` makes it."""
    path = host + "/shared"
    os.mkdir(path)
    os.chown(path, 0, GROUP)
    os.chmod(path, 0o2770)
    return path


def as_user(uid, group=GROUP):
    if uid == ROOT:
        return []
    groups = [f"--groups={group}"] if group else ["--clear-groups"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *groups]


class User:
    def __init__(self, host, uid, url, group=GROUP, umask=0o077):
        self.host, self.uid, self.url = host, uid, url
        self.before = ["sh", "-c", f'umask {umask:o}; exec "$@"', "sh",
                       *as_user(uid, group), host + "/snib"]

    def env(self):
        env = {"PATH": os.environ["PATH"]}
        if self.url:
            env["SNIB_URL"] = self.url
        return env

    def run(self, *args):
        return subprocess.run(self.before + list(args), env=self.env(),
                              capture_output=True, text=True, cwd="/",
                              stdin=subprocess.DEVNULL, timeout=60)

    def start(self, *args):
        return subprocess.Popen(self.before + list(args), env=self.env(),
                                cwd="/", stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("first", [ROOT, NOBODY])
def test_members_of_the_group_and_root_exclude_each_other(
        host, shared, first):
    url = f"file:{shared}/locks.db"
    users = {uid: User(host, uid, url) for uid in (ROOT, NOBODY, DAEMON)}
    done = users[first].run("run", "-q", "n", "--", "true")
    assert done.returncode == 0, done.stderr
    for holder in users:
        held = users[holder].start("run", "-q", "n", "--", "sh", "-c",
                                   "echo in; read x")
        assert held.stdout.readline() == "in\n", held.stderr.read()
        for other in users:
            done = users[other].run("try", "n")
            assert done.returncode == 75, (holder, other, done.stderr)
            shown = users[other].run("status", "--json", "n")
            assert json.loads(shown.stdout)["held"], (holder, other)
        waiting = [users[other].start("run", "-q", "-w", "20s", "n", "--",
                                      "echo", "mine")
                   for other in users if other != holder]
        eventually(lambda: len(json.loads(users[ROOT].run(
            "status", "--json", "n").stdout)["waiters"]) == 2, "two wait")
        held.stdin.write("\n")
        held.stdin.close()
        for one in waiting:
            assert one.stdout.read() == "mine\n", one.stderr.read()
            assert one.wait() == 0
        assert held.wait() == 0
    for name in os.listdir(shared):  # whoever made it, by whatever umask
        found = os.stat(f"{shared}/{name}")
        assert found.st_gid == GROUP, name
        assert oct(found.st_mode & 0o7777) == "0o660", name
    assert os.listdir(shared) == ["locks.db"]


def test_a_member_who_is_killed_frees_it_for_another_user(host, shared):
    url = f"file:{shared}/locks.db"
    nobody, daemon = User(host, NOBODY, url), User(host, DAEMON, url)
    mark = shared + "/pid"
    held = nobody.start("run", "-q", "-t", "2s", "n", "--", "sh", "-c",
                        'echo $$ >"$0.new"; mv "$0.new" "$0"; sleep 100', mark)
    os.kill(read_pid(mark), 9)
    assert held.wait() == 128 + 9
    assert daemon.run("try", "n").returncode == 0


def test_who_is_not_in_the_group_is_kept_out(host, shared):
    url = f"file:{shared}/locks.db"
    assert User(host, NOBODY, url).run("try", "n").returncode == 0
    done = User(host, BIN, url, group=None).run("try", "n")
    assert done.returncode == 78, done.stderr


@pytest.mark.parametrize("spoil, word", [
    ("chmod 666 locks.db", "0660"),
    ("chgrp 0 locks.db", "group"),
    ("ln locks.db other", "hard link"),
    ("rm locks.db; ln -s /etc/hostname locks.db", "symbolic link"),
])
def test_a_stranger_thing_in_a_shared_directory_is_refused(
        host, shared, spoil, word):
    url = f"file:{shared}/locks.db"
    assert User(host, ROOT, url).run("try", "n").returncode == 0
    subprocess.run(["sh", "-ec", spoil], cwd=shared, check=True)
    for uid in (ROOT, NOBODY):
        done = User(host, uid, url).run("try", "n")
        assert done.returncode == 78 and word in done.stderr, done


def test_two_users_without_a_shared_directory_are_told_the_way(host):
    os.mkdir(host + "/d")
    os.chmod(host + "/d", 0o1777)
    url = f"file:{host}/d/locks.db"
    assert User(host, NOBODY, url).run("try", "n").returncode == 0
    done = User(host, DAEMON, url).run("try", "n")
    assert done.returncode == 78
    assert "belongs to another user" in done.stderr
    assert "install -d -m 2770 -g GROUP" in done.stderr, done.stderr
    assert "name another" not in done.stderr, done.stderr


# -- the default file ------------------------------------------------------------


def on_a_host(host, script, *args):
    """A shell script as root, with a /var/lib of its own; $0: the program."""
    whole = ("set -eu; mount -t tmpfs none /var/lib; chmod 755 /var/lib; "
             + script)
    return ["unshare", "-m", "sh", "-c", whole, host + "/snib", *args]


def run_on_a_host(host, script):
    return subprocess.run(on_a_host(host, script), cwd="/", timeout=60,
                          env={"PATH": os.environ["PATH"]},
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)


MAKE = ("install -d -m 755 /var/lib/snib && "
        f"install -d -m 2770 -g {GROUP} /var/lib/snib/shared; ")
MEMBER = f"setpriv --reuid={NOBODY} --regid={NOBODY} --groups={GROUP}"


def test_the_shared_directory_is_the_default_of_its_members_and_root(host):
    done = run_on_a_host(host, MAKE + (
        f'umask 077; "$0" run -q n -- {MEMBER} "$0" try n && exit 1; '
        f'{MEMBER} "$0" run -q n -- sleep 50 & pid=$!; '
        f'until {MEMBER} "$0" status --json n | grep -q \'"held": *true\'; '
        'do :; done; "$0" try n && exit 1; kill $pid; wait $pid || :; '
        '"$0" doctor; ls /var/lib/snib'))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("held by") == 2, done.stderr
    assert f"shared by the members of group {GROUP}" in done.stdout
    assert done.stdout.endswith("\nshared\n"), done.stdout


def test_who_still_holds_in_the_own_file_is_waited_for(host):
    """Root makes the shared directory while a job runs in his own file."""
    done = run_on_a_host(host, (
        '"$0" run -q n -- sleep 50 & pid=$!; '
        'until "$0" status --json n | grep -q \'"held": *true\'; do :; done; '
        + MAKE + '"$0" try n && exit 1; echo $?; kill $pid; wait $pid || :; '
        '"$0" try n; ls /var/lib/snib/shared'))
    assert done.returncode == 0, done.stderr
    assert "still uses the lock file /var/lib/snib/locks.db" in done.stderr
    assert done.stdout.startswith("78\n") and "locks.db" in done.stdout


def test_who_still_holds_in_the_own_file_is_seen_from_another_container(host):
    """The kernel's list of locks leaves out other pid namespaces."""
    done = run_on_a_host(host, (
        '"$0" run -q n -- sleep 50 & pid=$!; '
        'until "$0" status --json n | grep -q \'"held": *true\'; do :; done; '
        + MAKE + 'unshare -pf --mount-proc "$0" try n && exit 1; echo $?; '
        'kill $pid; wait $pid || :; unshare -pf --mount-proc "$0" try n'))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "another process still uses the lock file " in done.stderr
    assert done.stdout.startswith("78\n")


def test_who_only_looks_at_the_own_file_keeps_nobody_from_the_shared(host):
    """As each newcomer does, for an instant."""
    done = run_on_a_host(host, (
        '"$0" try n; ' + MAKE +
        'flock -x /var/lib/snib/locks.db sh -c '
        "'echo >/var/lib/looks; exec sleep 0.02' & "
        'until [ -e /var/lib/looks ]; do :; done; '
        '"$0" try n; wait; ls /var/lib/snib/shared'))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "locks.db" in done.stdout


def test_a_shared_directory_that_others_may_write_to_is_not_used(host):
    done = run_on_a_host(host, MAKE + (
        'chmod 2777 /var/lib/snib/shared; "$0" try n'))
    assert done.returncode == 78
    assert "install -d -m 2770 -g GROUP /var/lib/snib/shared" in done.stderr


def test_who_is_no_member_has_a_file_of_his_own(host):
    done = run_on_a_host(host, MAKE + (
        f'setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups '
        '"$0" try n'))
    assert done.returncode == 78
    # Nobody has no home, so that is as far as he comes.
    home = pwd.getpwuid(NOBODY).pw_dir
    assert home in done.stderr and "shared" not in done.stderr, done.stderr


def test_a_shared_file_is_there_also_for_who_may_not_see_it(host):
    """Its directory keeps him out, so that it could not be made either."""
    done = run_on_a_host(host, MAKE + (
        '"$0" try n && setpriv --reuid=%d --regid=%d --clear-groups "$0" try '
        '-s file:/var/lib/snib/shared/locks.db n' % (NOBODY, NOBODY)))
    assert done.returncode == 78, done.stderr
    assert ("lock file /var/lib/snib/shared/locks.db: Permission "
            "denied (only members of its directory's group may); "
            in done.stderr), done.stderr


def test_doctor_says_who_is_not_excluded(host):
    done = run_on_a_host(host, '"$0" doctor')
    assert done.returncode == 0, done.stderr
    assert "other users of this host" in done.stdout
    assert "install -d -m 2770 -g GROUP /var/lib/snib/shared" in done.stdout


def test_root_is_told_once_a_boot_on_a_terminal(host):
    """Twice on a terminal, once into a pipe."""
    parent, child = pty.openpty()
    told = "only programs of this user are excluded"
    try:
        done = subprocess.run(
            on_a_host(host, '"$0" run n -- true 2>"$1"; "$0" run n -- true; '
                            'echo . >&2; "$0" run n -- true; cat "$1"',
                      host + "/pipe"),
            env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=child, text=True, timeout=60)
    finally:
        os.close(child)
    text = read_all(parent).decode()
    os.close(parent)
    assert done.returncode == 0, text
    assert told not in done.stdout
    first, _, second = text.partition(".\r\n")
    assert told in first and told not in second, text


def test_a_nested_call_uses_the_default_file(host):
    done = run_on_a_host(host, '"$0" run -q -s file: n -- sh -c \''
                               'echo "$SNIB_URL"; cd /; "$0" status n\' "$0"')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "file:/var/lib/snib/locks.db\nn: held by"), done.stdout


@pytest.mark.parametrize("of, known", [
    ("file", "; the lock is free in at most 5[0-9]s, or at once by snib "),
    ('"$grant"', ": released already, or killed; snib status shows ")])
def test_the_default_file_does_not_say_that_a_grant_ended(host, of, known):
    """A grant names no store; the file has the whole path of a relative one."""
    done = run_on_a_host(host, (
        'cd /var/lib; "$0" acquire -q -s file:there.db -o file -t 1m n; '
        'grant=$(sed -n s/^grant=//p file); '
        'pid=$(sed -n s/^keeper_pid=//p file); '
        'kill -9 $pid; while [ -e /proc/$pid ]; do :; done; '
        f'for sub in release renew check; do "$0" $sub {of} || echo $?; done; '
        '"$0" status -s file:there.db n'))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("76\n" * 3 + "n: held by"), done.stdout
    assert "had ended" not in done.stderr
    assert len(re.findall("n: its holder process has ended" + known,
                          done.stderr)) == 3


@pytest.mark.parametrize("sub", ["release", "renew", "check"])
@pytest.mark.parametrize("owner, other", [(NOBODY, DAEMON), (ROOT, DAEMON)])
def test_the_grant_of_another_user_is_told_to_be_his(host, shared, owner, other,
                                                     sub):
    """… at once, and nothing of "does not answer"."""
    url = f"file:{shared}/locks.db"
    owner, other = User(host, owner, url), User(host, other, url)
    grant = owner.run("acquire", "-q", "-t", "1m", "n").stdout.strip()
    try:
        done = other.run(sub, grant)
        assert (done.returncode, done.stdout) == (76, "")
        name = pwd.getpwuid(owner.uid).pw_name
        assert done.stderr == (
            f"snib: n: the grant belongs to another user, {name} (uid "
            f"{owner.uid}): its holder process answers that user and root "
            "only\n")
        assert owner.run("check", grant).returncode == 0
        assert User(host, ROOT, url).run("check", grant).returncode == 0
    finally:
        assert owner.run("release", grant).returncode == 0


SQUAT = """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\\0snib." + sys.argv[1])
s.listen()
print("ready", flush=True)
while True:
    s.accept()[0].close()
"""


@pytest.mark.parametrize("sub", ["release", "renew", "check"])
def test_who_takes_the_address_of_a_killed_holder_makes_the_grant_nobodys(
        host, shared, sub):
    """… and is not said to be the owner."""
    root = User(host, ROOT, f"file:{shared}/locks.db")
    grant = root.run("acquire", "-q", "-t", "1m", "n").stdout.strip()
    address, pid = grant.split(":")[1], int(grant.split(":")[2].split(".")[0])
    os.kill(pid, 9)
    eventually(lambda: not os.path.exists(f"/proc/{pid}") or not runs(pid))
    squatter = subprocess.Popen(
        [*as_user(DAEMON), sys.executable, "-c", SQUAT, address],
        stdout=subprocess.PIPE, text=True)
    try:
        assert squatter.stdout.readline() == "ready\n"
        done = root.run(sub, grant)
        assert (done.returncode, done.stdout) == (76, "")
        assert re.fullmatch(
            "snib: n: a process of another user answers in place of its holder "
            "process, and is not believed; the lock is free in at most "
            r"[0-9.]+s?, or at once by snib force-release\n", done.stderr)
    finally:
        squatter.kill()
        squatter.communicate()


def test_check_in_a_command_of_another_user_says_whose_it_is(host, shared):
    url = f"file:{shared}/locks.db"
    done = User(host, ROOT, url).run(
        "run", "-q", "n", "--", *as_user(DAEMON), host + "/snib", "check")
    assert done.returncode == 76
    assert done.stderr == (
        "snib: n: the grant belongs to another user, root (uid 0): its holder "
        "process answers that user and root only\n")


def test_doctor_tells_who_is_to_join_the_group_what_to_do(host):
    """Not how to make what root has made."""
    done = run_on_a_host(host, MAKE.replace(str(GROUP), "users") + (
        'home=$(getent passwd 5 | cut -d: -f6); mount -t tmpfs none "$home"; '
        'chown 5 "$home"; setpriv --reuid=5 --regid=60 --clear-groups '
        '"$0" doctor'))
    assert done.returncode == 0, done.stderr
    assert "install -d" not in done.stdout, done.stdout
    assert ("to share: join group users, which has /var/lib/snib/shared (as "
            "root: usermod -aG users USER), and log in anew") in done.stdout
