"""A proxy of bytes between a client and a database server that can lose what is
meant: it knows enough of the protocol to find the n-th answer.

    proxy = StreamProxy(server.address)
    rule = proxy.lose_answers("words of a statement")
    rule = proxy.hold("words of a statement"); …; rule.go_on.set()
    rule = proxy.be_late("words of a statement"); …; rule.go_on.set()
    rule = proxy.put_instead("words of a statement", "others")
    proxy.partition(); …; proxy.heal()

Each connection has two threads. A rule is looked at for each piece that a
client sends: when its words stand in it, nothing that the server says from then
on reaches that client, and after `then` the connection is cut.
"""

import re
import socket
import struct
import threading

from .ports import free_port

RST = struct.pack("ii", 1, 0)


class Rule:
    def __init__(self, words, times, then):
        self.words, self.times, self.then = words, times, then
        self.fired = 0
        self.go_on = threading.Event()


class StreamProxy:
    def __init__(self, target, words_of_texts=False):
        self.target = target
        self.words_of_texts = words_of_texts
        self.rules, self.puts, self.pairs = [], [], []
        self.held = False
        self.through = threading.Event()
        self.through.set()
        self.kept_back = 0  # pieces that came during a partition
        self.lock = threading.Lock()
        self.ear = socket.socket()
        self.ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port = free_port()
        self.ear.bind(("127.0.0.1", self.port))
        self.ear.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, server):
        return server.url.replace(f":{server.port}/", f":{self.port}/")

    def _accept(self):
        while True:
            try:
                client, _ = self.ear.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            pair = {"client": client, "server": server, "deaf": False,
                    "statements": {}}
            with self.lock:
                self.pairs.append(pair)
            for source, to in (("client", "server"), ("server", "client")):
                threading.Thread(target=self._pump, args=(pair, source, to),
                                 daemon=True).start()

    def _pump(self, pair, source, to):
        while True:
            try:
                data = pair[source].recv(65536)
            except OSError:
                data = b""
            if not data:
                self._cut(pair)
                return
            self._let_through(pair, source, data)
            if source == "client":
                data = self._put_instead(data)
                self._look(pair, data)
            elif pair["deaf"]:
                if pair["deaf"] != "silence":
                    self._cut(pair)
                    return
                continue
            try:
                pair[to].sendall(data)
            except OSError:
                self._cut(pair)
                return

    def _let_through(self, pair, source, data):
        """Return when this piece may go on."""
        del pair, source, data
        if not self.through.is_set():
            self.kept_back += 1
            self.through.wait(60)

    def _look(self, pair, data):
        """Which statements are executed by this piece? MySQL's protocol has
        their texts in it. In PostgreSQL's their names stand in Bind messages,
        their texts in the Parse messages before."""
        texts = data if self.words_of_texts else self._texts(pair, data)
        held = None
        with self.lock:
            for rule in self.rules:
                if rule.fired < rule.times and rule.words in texts:
                    rule.fired += 1
                    held = rule if rule.then in ("hold", "late") else held
                    pair["deaf"] = "" if held else rule.then
        if held and held.then == "late":
            self._cut(pair, ("client",))
        if held:
            held.go_on.wait(60)

    def _put_instead(self, data):
        for rule in self.puts:
            if not rule.fired and rule.words in data:
                rule.fired += 1
                data = data.replace(rule.words, rule.then)
        return data

    def _texts(self, pair, data):
        for match in re.finditer(rb"P....(snib\d+)\0([^\0]*)\0", data, re.S):
            pair["statements"][match[1]] = match[2]
        return b"\n".join(
            pair["statements"].get(match[1], b"") for match in re.finditer(
                rb"B....\0(snib\d+)\0", data, re.S))

    def lose_answers(self, words, times=1, then="rst"):
        """From a request in whose statements these words stand, answers do not
        come; then: "rst" cuts at the first one, "silence" never."""
        rule = Rule(words.encode(), times, then)
        with self.lock:
            self.rules.append(rule)
        return rule

    def hold(self, words):
        """The next request in whose statements these words stand does not get
        through before the rule's go_on is set."""
        rule = Rule(words.encode(), 1, "hold")
        with self.lock:
            self.rules.append(rule)
        return rule

    def be_late(self, words):
        """At the next such request the client is cut off; the server gets it when
        the rule's go_on is set, and hears nothing else."""
        rule = Rule(words.encode(), 1, "late")
        with self.lock:
            self.rules.append(rule)
        return rule

    def put_instead(self, words, others):
        """The next statement in which these words stand reaches the server with
        others in their place, which are not longer."""
        assert len(others) <= len(words)
        rule = Rule(words.encode(), 1, others.ljust(len(words)).encode())
        self.puts.append(rule)
        return rule

    def partition(self):
        """Nothing gets through, either way, before heal(); then it comes late."""
        self.through.clear()

    def heal(self):
        self.through.set()

    def _cut(self, pair, ends=("client", "server")):
        for end in ends:
            try:
                pair[end].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
                pair[end].shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            pair[end].close()

    def cut(self):
        """All connections, now. How many it were."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        there = sum(pair["client"].fileno() != -1 for pair in pairs)
        for pair in pairs:
            self._cut(pair)
        return there

    def close(self):
        self.ear.close()
        self.heal()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
