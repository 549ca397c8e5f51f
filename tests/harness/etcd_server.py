"""A real etcd in a scratch directory, on free ports: one member or several.

Its data lie in memory where there is room, so that a commit takes no longer
because others write, too.
"""

import os
import re
import shutil
import signal
import subprocess

from .ensemble import Ensemble, Member
from .ports import free_port
from .stream_proxy import StreamProxy


def etcd_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if os.environ.get("SNIB_QUICK"):
        return "not in a quick run, where PostgreSQL stands for the others"
    if not shutil.which("etcd") or not shutil.which("etcdctl"):
        return "etcd is not installed (Debian: apt install etcd-server " \
               "etcd-client)"
    return ""


class PeerProxy(StreamProxy):
    """What the other members reach instead of one's port for them. They say who
    they are at the head of each request, so it knows whom to leave out."""

    def __init__(self, port):
        super().__init__(("127.0.0.1", port))
        self.shut, self.out = False, set()

    def _look(self, pair, data):
        said = re.search(rb"X-Server-From: (\w+)", data)
        if said:
            pair["from"] = said[1].decode()
        if self.shut or pair.get("from") in self.out:
            self._cut(pair)

    def leave_out(self, member_id):
        """That one does not come through any more; None: nobody does."""
        self.shut = member_id is None
        self.out = {member_id}
        self.cut()

    def open(self):
        self.shut, self.out = False, set()


class EtcdMember(Member):
    """One process. tls: (certificate, key, CA) of the port for clients. proxied:
    the other members reach it through a PeerProxy."""

    def __init__(self, name="one", config=(), tls=None, proxied=False):
        super().__init__("snib-etcd-")
        self.name, self.config, self.tls = name, list(config), tls
        self.peer_port = free_port()
        self.peers = PeerProxy(self.peer_port) if proxied else None

    @property
    def client_url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def peer_url(self):
        port = self.peers.port if self.peers else self.peer_port
        return f"http://127.0.0.1:{port}"

    def start(self, members):
        secure = ["--cert-file", self.tls[0], "--key-file", self.tls[1]] \
            if self.tls else []
        self.spawn([
            "etcd", "--name", self.name, "--data-dir", self.dir + "/data",
            "--listen-client-urls", self.client_url,
            "--advertise-client-urls", self.client_url,
            "--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}",
            "--initial-advertise-peer-urls", self.peer_url,
            "--initial-cluster",
            ",".join(f"{m.name}={m.peer_url}" for m in members),
            "--auth-token", "simple", *secure, *self.config])

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(timeout=60)

    def close(self):
        super().close()
        if self.peers:
            self.peers.close()


class EtcdServer(Ensemble):
    """A cluster of so many members; with one, its member's ways are here, too.
    proxied: one can be cut off from the others. verified: etcdctl looks at the
    certificate; client: (certificate, key) that it shows."""
    PRODUCT, STARTS_S = "etcd", 60

    def __init__(self, members=1, config=(), tls=None, proxied=False,
                 verified=True, client=None):
        self.tls, self.login = tls, []
        self.scheme = "etcds" if tls else "etcd"
        self.secure = ["--cacert", tls[2]] if tls else []
        self.secure += [] if verified else ["--insecure-skip-tls-verify"]
        self.secure += ["--cert", client[0], "--key", client[1]] if client \
            else []
        super().__init__([EtcdMember(f"m{i}", config, tls, proxied)
                          for i in range(members)])

    def restore(self, backup):
        """The one member ends, and comes back with the keys of the backup."""
        one = self.only
        one.kill()
        shutil.rmtree(one.dir + "/data")
        self.ctl("snapshot", "restore", backup, "--name", one.name,
                 "--data-dir", one.dir + "/data",
                 "--initial-cluster", f"{one.name}={one.peer_url}",
                 "--initial-advertise-peer-urls", one.peer_url)
        self.start()

    # -- the way between the members ----------------------------------------------

    def cut_off(self, member):
        """It neither hears nor reaches the others; clients reach it still."""
        said = self.ctl("endpoint", "status", "-w", "fields", member=member)
        number = int(re.search(r'"MemberID" : (\d+)', said)[1])
        for one in self.members:
            one.peers.leave_out(None if one is member else f"{number:x}")

    def join_again(self):
        for one in self.members:
            one.peers.open()

    # -- look ---------------------------------------------------------------------

    def answers(self, member):
        done = self.ctl("endpoint", "health", member=member, check=False)
        return "is healthy" in done

    def leader(self):
        """The member that leads, as one of those that answer says; None: none
        does."""
        for one in self.members:
            line = self.ctl("endpoint", "status", "-w", "fields", member=one,
                            check=False)
            fields = dict(part.split(" : ", 1) for part in line.splitlines()
                          if " : " in part)
            if fields.get('"Leader"', "0") != "0" and \
                    fields['"Leader"'] == fields.get('"MemberID"'):
                return one
        return None

    def led_by_others(self, lost):
        """Do the others have a leader? They are asked first from now on."""
        self.members.sort(key=lambda one: one is lost)
        return any(self.answers(one) for one in self.members
                   if one is not lost)

    def ctl(self, *args, member=None, check=True, timeout=5, stdin=""):
        """What etcdctl says."""
        at = member or self.members[0]
        done = subprocess.run(
            ["etcdctl", "--endpoints", at.client_url, "--command-timeout",
             f"{timeout}s", *self.secure, *self.login, *args], text=True,
            input=stdin, env={**os.environ, "ETCDCTL_API": "3"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout

    def keys(self, prefix="snib/"):
        return [line for line in self.ctl("get", "--prefix", "--keys-only",
                                          prefix).splitlines() if line]

    def enable_auth(self, password="r00t"):
        self.ctl("user", "add", f"root:{password}")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("auth", "enable")
        self.login = ["--user", f"root:{password}"]

    def add_user(self, name, password, prefix="snib/"):
        self.ctl("role", "add", name)
        self.ctl("role", "grant-permission", name, "--prefix=true",
                 "readwrite", prefix)
        self.ctl("user", "add", f"{name}:{password}")
        self.ctl("user", "grant-role", name, name)


__all__ = ["EtcdMember", "EtcdServer", "etcd_missing"]
