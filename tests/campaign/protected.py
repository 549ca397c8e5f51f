"""The resource that the lock protects: a file with a set and a counter.

It guards itself by the fence, as FENCING.md tells: enter() raises the mark
before the first read of a section; write() compares. Between the two anybody
may be frozen for as long as the nemesis likes. Each of the two is atomic by
flock, which is the resource's own business, as a database's row lock is.
"""

import contextlib
import fcntl
import json
import os

from history import boot_ns


class Resource:
    """{"mark": 0, "count": 0, "elements": [[token, element], …]}

    note(**line) is called for each line of its own record: what it is asked,
    and what it has answered, both while it is alone.
    """

    def __init__(self, path, note=lambda **line: None):
        self.path, self._note = path, note

    def make(self):
        self._store({"mark": 0, "count": 0, "elements": []})

    @contextlib.contextmanager
    def _alone(self):
        with open(self.path + ".lock", "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _asked(self, what, token):
        """Inside the answer is written down: {"e": "fail"}, or "ok"."""
        with self._alone():
            line = {"id": f"{os.getpid()}.{boot_ns()}", "what": what,
                    "token": token}
            self._note(e="invoke", **line)
            answer = {"e": "fail"}
            yield answer
            self._note(**line, **answer)

    def _load(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def _store(self, data):
        """By rename: a writer may be killed anywhere."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.rename(file.name, self.path)

    def enter(self, token):
        """Raise the mark, then read. None: refused, somebody later is in."""
        with self._asked("enter", token) as answer:
            data = self._load()
            if token < data["mark"]:
                return None
            data["mark"] = token
            self._store(data)
            answer["e"] = "ok"
            return data["count"], data["elements"]

    def write(self, token, count, elements):
        """What was read before, changed. False: refused, nothing written."""
        with self._asked("write", token) as answer:
            if token != self._load()["mark"]:
                return False
            self._store({"mark": token, "count": count,
                         "elements": elements})
            answer["e"] = "ok"
            return True

    def read(self):
        with self._alone():
            return self._load()
