"""Several processes that are one server for their clients, each in a scratch
directory and on a free port; what etcd and ZooKeeper have of that in the same way.

A store's own are a Member with start(members) and an Ensemble with

    PRODUCT, STARTS_S     what it is called, and how long a start may take
    scheme                of its URLs
    answers(member)       does this one serve?
    leader()              the member that leads; None: none does
    led_by_others(member) do the others have a leader?
"""

import os
import shutil
import signal
import subprocess

from . import process
from .database_server import scratch
from .ports import free_port
from .wait import wait_until


class Member:
    """One process, as the user `who` (database_server.user)."""

    def __init__(self, prefix, who=None):
        self.who = who or {}
        self.dir = scratch(prefix, self.who)
        self.log_path = os.path.join(self.dir, "log")
        self.port = free_port()
        self.child = None

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def spawn(self, command):
        with open(self.log_path, "ab") as log:
            self.child = process.spawn(command, cwd=self.dir,
                                       stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, **self.who)

    def kill(self):
        process.kill(self.child)

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def close(self):
        if self.child is not None and self.child.poll() is None:
            process.kill(self.child)
        shutil.rmtree(self.dir, ignore_errors=True)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()


class Ensemble:
    """Started, and ready; with one member, its ways are here, too."""

    def __init__(self, members):
        self.members = members
        try:
            for one in self.members:
                one.start(self.members)
            for one in self.members:
                wait_until(lambda m=one: m.child.poll() is not None or
                           self.answers(m), self.STARTS_S,
                           f"{self.PRODUCT} is ready")
                assert one.child.poll() is None, one.log()[-2000:]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        for one in self.members:
            one.close()

    @property
    def only(self):
        assert len(self.members) == 1
        return self.members[0]

    @property
    def port(self):
        return self.members[0].port

    @property
    def address(self):
        return self.members[0].address

    def url_of(self, *members):
        hosts = ",".join(f"127.0.0.1:{m.port}" for m in members)
        return f"{self.scheme}://{hosts}"

    @property
    def url(self):
        return self.url_of(*self.members)

    def freeze(self):
        self.only.freeze()

    def thaw(self):
        self.only.thaw()

    def kill(self):
        self.only.kill()

    def start(self, wait=True):
        self.only.start(self.members)
        if wait:
            wait_until(lambda: self.answers(self.only), self.STARTS_S,
                       f"{self.PRODUCT} is back")


__all__ = ["Ensemble", "Member"]
