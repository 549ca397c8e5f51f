"""A RESP-aware fault proxy between a client and a Redis server.

It frames requests and replies, so that a fault hits exactly the message it is
meant for: "swallow the answer to the second release, then cut". A rule is
what to match and what to do; rules are added and removed while traffic runs.

    proxy = FaultProxy(server.address, scripts={sha: "acquire"})
    rule = proxy.drop_reply(script="acquire", nth=1, then="rst")
    …
    proxy.wait_for(lambda frame: rule.fired, timeout=2)

Threads: one background thread runs an asyncio loop that owns all sockets;
the test's threads touch rules (under a lock) and read the log. Per connection
two tasks pump one direction each, in order: a delayed message delays those
behind it, as TCP does. The first rule that matches a message decides.

Only one thing is not like a network: what the proxy has read is acknowledged
by its kernel. Faults below TCP (lost acknowledgements) need other tools.
"""

import asyncio
import collections
import dataclasses
import hashlib
import itertools
import socket
import struct
import threading
import time

from . import resp
from .ports import free_port
from .wait import boot_ns, patience

SUBSCRIBES = {b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE",
              b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"}
PUSHES = {b"message", b"pmessage", b"smessage"}
RST = struct.pack("ii", 1, 0)  # SO_LINGER with time 0: close sends RST


@dataclasses.dataclass
class Frame:
    """One message (or event of a connection) in the log."""

    seq: int
    time_ns: int              # CLOCK_BOOTTIME
    conn: int
    role: str                 # "command" | "subscriber"
    direction: str            # request reply push connect close late
    argv: list = None         # request: list of bytes
    value: object = None      # reply, push: the value; close: why
    raw: bytes = b""
    request: "Frame" = None   # reply: what it answers
    script: str = ""          # label of the script, if it calls one
    sha: str = ""
    fate: str = "forwarded"   # or what a rule did to it

    @property
    def command(self):
        """Upper-case command name, of a reply: that of its request."""
        frame = self.request if self.argv is None else self
        if frame is None or not frame.argv:
            return ""
        return frame.argv[0].decode("ascii", "replace").upper()

    def __str__(self):
        what = self.argv if self.argv is not None else self.value
        name = self.script or (self.request.script if self.request else "")
        return (f"#{self.seq} c{self.conn}/{self.role} {self.direction}"
                f" {name} {what!r:.300} [{self.fate}]")


class Rule:
    """What to match, what to do. Made by the methods of FaultProxy."""

    def __init__(self, proxy, stage, action, options, *, command=None,
                 script=None, sha=None, role=None, conn=None, nth=None,
                 times=None, where=None):
        assert stage in ("request", "reply", "push", "connect")
        self.stage, self.action, self.options = stage, action, options
        self._command = command.upper() if command else None
        self._script, self._sha, self._role = script, sha, role
        self._conn, self._nth, self._times, self._where = conn, nth, times, where
        self._proxy = proxy
        self._open = threading.Event()  # hold: set when it may go on
        self._waiting = []              # asyncio events of held messages
        self.seen = 0                   # messages that matched
        self.fired = 0                  # messages acted upon
        self.frames = []                # those messages
        self.late = []                  # duplicate: (frame, value) answered

    def matches(self, frame):
        """Called in the proxy's thread; counts. Reply: looks at the request."""
        subject = frame.request if frame.direction == "reply" else frame
        if subject is None:
            subject = frame
        if self._command and subject.command != self._command:
            return False
        if self._script and subject.script != self._script:
            return False
        if self._sha and subject.sha != self._sha:
            return False
        if self._role and frame.role != self._role:
            return False
        if self._conn is not None and frame.conn != self._conn:
            return False
        if (self._script or self._sha) and _is_noscript(frame.value):
            return False  # nothing was executed
        if self._where and not self._where(frame):
            return False
        self.seen += 1
        if self._nth is not None and self.seen != self._nth:
            return False
        if self._times is not None and self.fired >= self._times:
            return False
        self.fired += 1
        self.frames.append(frame)
        return True

    def release(self):
        """hold, merge: let the messages go."""
        self._open.set()
        self._proxy._call(self._wake)

    def _wake(self):
        for event in self._waiting:
            event.set()

    async def _held(self):
        if self._open.is_set():
            return
        event = asyncio.Event()
        self._waiting.append(event)
        if not self._open.is_set():
            await event.wait()

    def fire_late(self):
        """duplicate(after=None): send the copies now."""
        self.release()

    def wait_fired(self, times=1, timeout=5.0):
        """Block until the rule has acted that often; returns itself."""
        self._proxy.wait_for(lambda _: self.fired >= times, timeout,
                             f"{self.action} fires {times} times")
        return self

    def wait_late(self, timeout=5.0):
        """duplicate: the first answer to a late copy."""
        self._proxy.wait_for(lambda _: bool(self.late), timeout,
                             "the late copy is answered")
        return self.late[0][1]

    def remove(self):
        """Take the rule out; what it holds goes on."""
        self._proxy._remove(self)
        self.release()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _is_noscript(value):
    return isinstance(value, resp.RedisError) and value.word == "NOSCRIPT"


class _Cut(Exception):
    """Ends a connection: how is "rst" or "fin"."""

    def __init__(self, how, why):
        super().__init__(why)
        self.how = how


class _Conn:
    """One client connection and its upstream."""

    def __init__(self, number, client):
        self.number = number
        self.client = client
        self.upstream = None
        self.role = "command"
        self.pending = collections.deque()  # _Due, oldest first
        self.deaf_up = False       # discard what the client sends
        self.deaf_down = False     # discard what the server sends
        self.keep_upstream = None  # Rule of a half-open connection
        self.write_lock = asyncio.Lock()
        self.task = None
        self.merging = {"request": [], "reply": []}  # kept back by merge


@dataclasses.dataclass
class _Due:
    """A request whose answer is due: from the server, or made by a rule."""

    frame: Frame
    answers: int = 1
    canned: bytes = None


class FaultProxy:
    """Listens on a free loopback port in front of `upstream`.

    upstream  (host, port) or the path of a unix socket
    scripts   {sha1: label}
    classify  text of a script -> label or "", for scripts not in `scripts`
    """

    def __init__(self, upstream, scripts=None, classify=None):
        self.upstream = upstream
        self.scripts = dict(scripts or {})
        self.texts = {}            # sha1 -> text, as seen in EVAL, SCRIPT LOAD
        self.log = []
        self.counters = collections.Counter()
        self._classify = classify
        self._rules = []
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._conns = {}
        self._kept = []            # (rule, socket) of half-open connections
        self._numbers = itertools.count(1)
        self._seqs = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._accepting = None
        self._tasks = set()
        self._closing = self._closed = False
        self._bind()
        self._thread = threading.Thread(
            target=self._run, name="fault-proxy", daemon=True)
        self._thread.start()
        self._call_wait(self._listen)

    # -- life -----------------------------------------------------------------

    def _bind(self):
        for attempt in range(10):
            self.port = free_port()
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.setblocking(False)
            try:
                # An explicit port stays ours while we do not listen (refuse).
                self._listener.bind(("127.0.0.1", self.port))
                return
            except OSError:
                self._listener.close()
                if attempt == 9:
                    raise

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _call(self, function, *args):
        if not self._closed:
            self._loop.call_soon_threadsafe(function, *args)

    def _call_wait(self, function, *args):
        async def run():
            result = function(*args)
            return await result if asyncio.iscoroutine(result) else result
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def close(self):
        if self._closed:
            return
        self._call_wait(self._shut)
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _shut(self):
        self._closing = True
        if self._accepting is not None:
            self._accepting.cancel()
        self._listener.close()
        tasks = [conn.task for conn in self._conns.values()]
        tasks += list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, kept in self._kept:
            kept.close()
        self._kept.clear()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    # -- rules: whom ----------------------------------------------------------
    # Matching options of all of them: command, script, sha, role
    # ("command" | "subscriber"), conn, nth (act on the n-th match only),
    # times (act at most so often), where (callable on the Frame).

    def drop_reply(self, then="rst", **match):
        """Forward and let it execute; swallow the answer.

        then: "rst" | "fin" cut the connection; "silence": nothing more is
        ever delivered to the client; "nothing": only this one is missing
        (for a push; a reply would put the stream out of step).
        """
        return self._add("reply", "drop", {"then": then}, match)

    drop_reply_after_execution = drop_reply

    def drop_push(self, then="nothing", **match):
        """Lose a pub/sub message."""
        return self._add("push", "drop", {"then": then}, match)

    def drop_request(self, then="silence", **match):
        """The server never sees it. then: "silence" (nor anything after it
        on this connection) | "rst" | "fin"."""
        return self._add("request", "drop", {"then": then}, match)

    def delay_request(self, seconds, **match):
        return self._add("request", "delay", {"seconds": seconds}, match)

    def delay_reply(self, seconds, **match):
        return self._add("reply", "delay", {"seconds": seconds}, match)

    def delay_push(self, seconds, **match):
        return self._add("push", "delay", {"seconds": seconds}, match)

    def hold_request(self, **match):
        """As delay, until rule.release() or rule.remove()."""
        return self._add("request", "hold", {}, match)

    def hold_reply(self, **match):
        return self._add("reply", "hold", {}, match)

    def hold_push(self, **match):
        return self._add("push", "hold", {}, match)

    def cut_request(self, at, how="rst", **match):
        """The server gets exactly `at` bytes of it (negative: from the end),
        then both sides see the connection end."""
        return self._add("request", "cut", {"at": at, "how": how}, match)

    def cut_reply(self, at, how="rst", **match):
        """The client gets exactly `at` bytes of it, then the end."""
        return self._add("reply", "cut", {"at": at, "how": how}, match)

    def cut_push(self, at, how="rst", **match):
        return self._add("push", "cut", {"at": at, "how": how}, match)

    def split_requests(self, size=1, pause=0.0, **match):
        """Deliver in segments of `size` bytes."""
        return self._add("request", "split", {"size": size, "pause": pause}, match)

    def split_replies(self, size=1, pause=0.0, **match):
        return self._add("reply", "split", {"size": size, "pause": pause}, match)

    def split_pushes(self, size=1, pause=0.0, **match):
        return self._add("push", "split", {"size": size, "pause": pause}, match)

    def merge_requests(self, count, **match):
        """Keep `count` requests of a connection back, then deliver them in
        one segment."""
        return self._add("request", "merge", {"count": count}, match)

    def merge_replies(self, count=None, **match):
        """As merge_requests; count None: while more replies are due."""
        return self._add("reply", "merge", {"count": count}, match)

    def inject(self, raw, execute=False, **match):
        """Answer `raw` bytes in place of the reply; then, "" as before.

        execute: the server runs the request, and its answer is replaced.
        Else it never sees the request. Hostile or an error, as given.
        """
        stage = "reply" if execute else "request"
        return self._add(stage, "inject", {"raw": raw}, match)

    def inject_error(self, text, execute=False, **match):
        return self.inject(b"-" + resp.to_bytes(text) + b"\r\n", execute, **match)

    def half_open(self, stage="request", **match):
        """From the matching message on, that connection carries nothing in
        either direction, and neither side sees it end. The server's side
        stays open, even after the client has closed, until remove()."""
        return self._add(stage, "half_open", {}, match)

    def duplicate(self, after=None, preamble=(), **match):
        """A late copy: the request goes its way; its bytes are also sent on
        a connection of their own, `after` seconds later, or (None) at
        rule.fire_late(). preamble: commands sent there first (AUTH, …)."""
        return self._add("request", "duplicate",
                         {"after": after, "preamble": preamble}, match)

    def refuse(self, how="refused", **match):
        """New connections: "refused" (ECONNREFUSED, nobody listens),
        "rst" (accepted, reset at once), "hang" (accepted, never served).
        Until remove()."""
        rule = self._add("connect", "refuse", {"how": how}, match)
        if how == "refused":
            self._call_wait(self._unlisten)
        return rule

    def greet(self, raw, then="fin", **match):
        """New connections get `raw` at once and are closed, as a server at
        maxclients does it."""
        return self._add("connect", "greet", {"raw": raw, "then": then}, match)

    def partition(self, up=True, down=True):
        """Nothing passes, on any connection, until release() or remove();
        then it flows on, late. New connections still open."""
        rules = []
        if up:
            rules.append(self.hold_request())
        if down:
            rules += [self.hold_reply(), self.hold_push()]
        return _Several(rules)

    def _add(self, stage, action, options, match):
        rule = Rule(self, stage, action, options, **match)
        with self._lock:
            self._rules.append(rule)
        return rule

    def _remove(self, rule):
        with self._lock:
            if rule not in self._rules:
                return
            self._rules.remove(rule)
        if rule.action == "refuse" and rule.options["how"] == "refused":
            self._call_wait(self._listen)
        if rule.action == "half_open":
            self._call_wait(self._close_kept, rule)

    def clear(self):
        """Remove all rules."""
        for rule in list(self._rules):
            rule.remove()

    def cut_all(self, how="rst", role=None, conn=None):
        """End open connections now; returns how many."""
        def cut():
            chosen = [c for c in self._conns.values()
                      if (role is None or c.role == role)
                      and (conn is None or c.number == conn)]
            for c in chosen:
                c.task.cut_how = how
                c.task.cancel()
            return len(chosen)
        return self._call_wait(cut)

    def open_conns(self, role=None):
        with self._lock:
            return [c.number for c in self._conns.values()
                    if role is None or c.role == role]

    # -- log ------------------------------------------------------------------

    def mark(self):
        """A place in the log, for frames(since=…)."""
        with self._lock:
            return len(self.log)

    def frames(self, direction=None, since=0, where=None, **match):
        """Frames of the log: by direction, command=, script=, role=, conn=."""
        with self._lock:
            found = self.log[since:]

        def fits(frame):
            script = frame.script or (
                frame.request.script if frame.request else "")
            return ((direction is None or frame.direction == direction)
                    and all(value == (script if key == "script"
                                      else getattr(frame, key))
                            for key, value in match.items())
                    and (where is None or where(frame)))
        return [frame for frame in found if fits(frame)]

    def count(self, direction="request", since=0, **match):
        return len(self.frames(direction, since, **match))

    def wait_for(self, event, timeout=5.0, what="an event", since=0):
        """The first frame at or after `since` of which event(frame) is true.

        Looked at again with each new frame and each firing of a rule.
        """
        deadline = time.monotonic() + patience(timeout)
        at = since
        with self._changed:
            while True:
                # The newest once more: a rule may have fired since.
                for frame in self.log[max(at - 1, since):]:
                    if event(frame):
                        return frame
                at = len(self.log)
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    if time.monotonic() >= deadline:
                        raise AssertionError(
                            f"not within {timeout:g} s: {what}; last frames:\n"
                            + self.tail())

    def tail(self, count=20):
        with self._lock:
            return "\n".join(str(frame) for frame in self.log[-count:])

    def _note(self, conn, direction, **fields):
        frame = Frame(next(self._seqs), boot_ns(), conn.number, conn.role,
                      direction, **fields)
        with self._changed:
            self.log.append(frame)
            self.counters[direction] += 1
            self._changed.notify_all()
        return frame

    def _rule_for(self, stage, frame):
        with self._changed:
            for rule in self._rules:
                if rule.stage == stage and rule.matches(frame):
                    frame.fate = rule.action
                    self._changed.notify_all()
                    return rule
        return None

    # -- connections (the loop's thread from here on) -------------------------

    def _listen(self):
        if self._accepting is None:
            self._listener.listen(256)
            self._accepting = self._loop.create_task(self._accept())

    async def _unlisten(self):
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
            # Linux: a listening socket that is shut down keeps its port.
            self._listener.shutdown(socket.SHUT_RDWR)

    async def _accept(self):
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn = _Conn(next(self._numbers), client)
            with self._lock:
                self._conns[conn.number] = conn
            conn.task = self._loop.create_task(self._serve(conn))

    async def _serve(self, conn):
        how, why = "fin", "eof"
        try:
            await self._greet(conn, self._note(conn, "connect"))
            await self._connect(conn)
            pumps = [self._loop.create_task(self._requests(conn)),
                     self._loop.create_task(self._replies(conn))]
            try:
                done, _ = await asyncio.wait(
                    pumps, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in pumps:
                    task.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except _Cut as cut:
            how, why = cut.how, str(cut)
        except asyncio.CancelledError:
            how, why = getattr(conn.task, "cut_how", "fin"), "cut by the test"
        except ConnectionResetError:
            how, why = "rst", "reset"
        except OSError as error:
            why = str(error)
        finally:
            with self._lock:
                self._conns.pop(conn.number, None)
            _end(conn.client, how)
            self._leave_upstream(conn)
            self._note(conn, "close", value=why)

    async def _greet(self, conn, frame):
        rule = self._rule_for("connect", frame)
        if rule is None:
            return
        if rule.action == "greet":
            await self._loop.sock_sendall(conn.client, rule.options["raw"])
            raise _Cut(rule.options["then"], "greeted")
        if rule.options["how"] == "hang":
            while await self._loop.sock_recv(conn.client, 65536):
                pass
            raise _Cut("fin", "gave up waiting")
        raise _Cut("rst", "refused")

    async def _connect(self, conn):
        family = (socket.AF_UNIX if isinstance(self.upstream, str)
                  else socket.AF_INET)
        conn.upstream = socket.socket(family, socket.SOCK_STREAM)
        conn.upstream.setblocking(False)
        if family == socket.AF_INET:
            conn.upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self._loop.sock_connect(conn.upstream, self.upstream)
        except OSError as error:
            raise _Cut("rst", f"upstream: {error}") from None

    def _leave_upstream(self, conn):
        """End the server's side so that what was delivered is executed: a
        close with unread replies would be a reset, and lose it."""
        if conn.upstream is None:
            return
        if self._closing:
            conn.upstream.close()
            return
        if conn.keep_upstream is not None:
            self._kept.append((conn.keep_upstream, conn.upstream))
            return

        async def drain(sock):
            try:
                sock.shutdown(socket.SHUT_WR)
                while await asyncio.wait_for(
                        self._loop.sock_recv(sock, 65536), 5):
                    pass
            except (OSError, asyncio.TimeoutError):
                pass
            finally:
                sock.close()
        self._background(drain(conn.upstream))

    def _close_kept(self, rule):
        for item in [item for item in self._kept if item[0] is rule]:
            self._kept.remove(item)
            item[1].close()

    def _background(self, coroutine):
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- requests -------------------------------------------------------------

    async def _requests(self, conn):
        reader = resp.Reader(inline=True)
        while True:
            data = await self._loop.sock_recv(conn.client, 65536)
            if not data:
                return
            reader.feed(data)
            while (found := reader.next()) is not None:
                argv, raw = found
                await self._request(conn, argv, raw)

    async def _request(self, conn, argv, raw):
        frame = self._describe(conn, argv, raw)
        if conn.deaf_up:
            return
        due = _Due(frame, _answers(frame))
        rule = self._rule_for("request", frame)
        if rule is not None and rule.action == "inject":
            due.canned = rule.options["raw"]
        if rule is None or rule.action == "duplicate":
            if rule is not None:
                self._background(self._late_copy(rule, frame))
            await self._forward(conn, due, raw)
        else:
            await self._act_request(conn, rule, due, raw)

    async def _forward(self, conn, due, raw):
        conn.pending.append(due)
        await self._loop.sock_sendall(conn.upstream, _glue(conn, "request", raw))

    async def _act_request(self, conn, rule, due, raw):
        options = rule.options
        match rule.action:
            case "drop":
                if options["then"] != "silence":
                    raise _Cut(options["then"], "request dropped")
                conn.deaf_up = True
            case "delay":
                await asyncio.sleep(options["seconds"])
                await self._forward(conn, due, raw)
            case "hold":
                await rule._held()
                await self._forward(conn, due, raw)
            case "cut":
                size = _position(options["at"], raw)
                due.frame.fate = f"cut at {size} of {len(raw)}"
                await self._loop.sock_sendall(conn.upstream, raw[:size])
                raise _Cut(options["how"], due.frame.fate)
            case "split":
                conn.pending.append(due)
                await self._pieces(conn.upstream, raw, options)
            case "merge":
                conn.pending.append(due)
                conn.merging["request"].append(raw)
                if len(conn.merging["request"]) == options["count"]:
                    await self._loop.sock_sendall(
                        conn.upstream, _glue(conn, "request"))
            case "inject":
                conn.pending.append(due)
                await self._canned(conn)
            case "half_open":
                _half_open(conn, rule)

    def _describe(self, conn, argv, raw):
        argv = [bytes(arg) if isinstance(arg, (bytes, bytearray)) else b""
                for arg in argv]
        name = argv[0].upper() if argv else b""
        sha = ""
        if name in (b"EVALSHA", b"EVALSHA_RO") and len(argv) > 1:
            sha = argv[1].decode("ascii", "replace").lower()
        elif name in (b"EVAL", b"EVAL_RO") and len(argv) > 1:
            sha = self._learn(argv[1])
        elif name == b"SCRIPT" and len(argv) > 2 and argv[1].upper() == b"LOAD":
            self._learn(argv[2])
        elif name in SUBSCRIBES:
            conn.role = "subscriber"
        return self._note(conn, "request", argv=argv, raw=raw, sha=sha,
                          script=self.label(sha),
                          fate="discarded" if conn.deaf_up else "forwarded")

    def _learn(self, text):
        sha = hashlib.sha1(text).hexdigest()
        self.texts[sha] = text
        return sha

    def label(self, sha):
        """The label of a script; "" when it has none."""
        if not sha:
            return ""
        found = self.scripts.get(sha, "")
        if not found and self._classify is not None and sha in self.texts:
            found = self._classify(self.texts[sha].decode("utf-8", "replace"))
            if found:
                self.scripts[sha] = found
        return found

    async def _late_copy(self, rule, frame):
        if rule.options["after"] is None:
            await rule._held()
        else:
            await asyncio.sleep(rule.options["after"])
        conn = _Conn(next(self._numbers), None)
        await self._connect(conn)
        try:
            reader = resp.Reader()
            for command in rule.options["preamble"]:
                await self._loop.sock_sendall(
                    conn.upstream, resp.encode(*command))
                await self._one(conn.upstream, reader)
            await self._loop.sock_sendall(conn.upstream, frame.raw)
            value = resp.plain(await self._one(conn.upstream, reader))
        finally:
            conn.upstream.close()
        rule.late.append((frame, value))
        self._note(conn, "late", argv=frame.argv, value=value, raw=frame.raw,
                   request=frame, script=frame.script, sha=frame.sha)

    async def _one(self, sock, reader):
        while (found := reader.next()) is None:
            data = await self._loop.sock_recv(sock, 65536)
            if not data:
                raise ConnectionError("closed by the server")
            reader.feed(data)
        return found[0]

    # -- replies --------------------------------------------------------------

    async def _replies(self, conn):
        reader = resp.Reader()
        while True:
            data = await self._loop.sock_recv(conn.upstream, 65536)
            if not data:
                if conn.deaf_down:
                    await asyncio.Event().wait()  # nobody sees it end
                return
            reader.feed(data)
            while (found := reader.next()) is not None:
                await self._answer(conn, *found)
                await self._canned(conn)

    async def _answer(self, conn, value, raw):
        value = resp.plain(value)
        if _is_push(conn, value):
            stage, request = "push", None
        else:
            stage, request = "reply", _settle_due(conn)
        frame = self._note(conn, stage, value=value, raw=raw, request=request,
                           fate="discarded" if conn.deaf_down else "forwarded")
        if conn.deaf_down:
            return
        rule = self._rule_for(stage, frame)
        if rule is None:
            await self._deliver(conn, raw)
        else:
            await self._act_answer(conn, rule, frame, raw)

    async def _deliver(self, conn, raw):
        async with conn.write_lock:
            await self._loop.sock_sendall(
                conn.client, _glue(conn, "reply", raw))

    async def _act_answer(self, conn, rule, frame, raw):
        options = rule.options
        match rule.action:
            case "drop":
                if options["then"] == "silence":
                    conn.deaf_down = True
                elif options["then"] != "nothing":
                    raise _Cut(options["then"], "reply dropped")
            case "delay":
                await asyncio.sleep(options["seconds"])
                await self._deliver(conn, raw)
            case "hold":
                await rule._held()
                await self._deliver(conn, raw)
            case "cut":
                size = _position(options["at"], raw)
                frame.fate = f"cut at {size} of {len(raw)}"
                await self._deliver(conn, raw[:size])
                raise _Cut(options["how"], frame.fate)
            case "split":
                async with conn.write_lock:
                    await self._pieces(conn.client, raw, options)
            case "merge":
                conn.merging["reply"].append(raw)
                gathered = len(conn.merging["reply"])
                if gathered == options["count"] or (
                        options["count"] is None and not conn.pending):
                    await self._deliver(conn, b"")
            case "inject":
                await self._deliver(conn, options["raw"])
            case "half_open":
                _half_open(conn, rule)

    async def _canned(self, conn):
        """Deliver made-up answers whose turn has come."""
        while conn.pending and conn.pending[0].canned is not None:
            due = conn.pending.popleft()
            self._note(conn, "reply", value=due.canned, raw=due.canned,
                       request=due.frame, fate="inject")
            await self._deliver(conn, due.canned)

    async def _pieces(self, sock, raw, options):
        for at in range(0, len(raw), options["size"]):
            await self._loop.sock_sendall(sock, raw[at:at + options["size"]])
            await asyncio.sleep(options["pause"])


class _Several:
    """Rules that stand and fall together."""

    def __init__(self, rules):
        self._rules = rules

    @property
    def fired(self):
        return sum(rule.fired for rule in self._rules)

    def release(self):
        for rule in self._rules:
            rule.release()

    def remove(self):
        for rule in self._rules:
            rule.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _answers(frame):
    """How many replies a request gets: one, but (un)subscribing one each."""
    if frame.argv and frame.argv[0].upper() in SUBSCRIBES:
        return max(1, len(frame.argv) - 1)
    return 1


def _is_push(conn, value):
    return (conn.role == "subscriber" and isinstance(value, list)
            and len(value) > 2 and value[0] in PUSHES)


def _settle_due(conn):
    """The request that the next reply answers; None for one nobody asked."""
    if not conn.pending:
        return None
    due = conn.pending[0]
    due.answers -= 1
    if due.answers == 0:
        conn.pending.popleft()
    return due.frame


def _glue(conn, direction, raw=b""):
    """What merge kept back, with raw after it; nothing is kept any more."""
    together = b"".join([*conn.merging[direction], raw])
    conn.merging[direction].clear()
    return together


def _half_open(conn, rule):
    conn.deaf_up = conn.deaf_down = True
    conn.keep_upstream = rule


def _position(at, raw):
    """Beyond the end is the end: messages of a kind differ by some bytes."""
    return max(0, min(at if at >= 0 else len(raw) + at, len(raw)))


def _end(sock, how):
    try:
        if how == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
    except OSError:
        pass
    sock.close()
