"""The harness itself: each fault does what it says, against a real server."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from . import ports, process, resp
from .pulse import Pulse
from .redis_server import RedisServer, redis_missing
from .resp import Client, RedisError
from .wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

COUNT = "return redis.call('INCR', KEYS[1])"
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def ended(client, timeout=3):
    """How a connection ended: "rst", "fin", with what came before."""
    got = b""
    try:
        while True:
            data = client.read_raw(timeout=timeout)
            if not data:
                return "fin", got
            got += data
    except ConnectionResetError:
        return "rst", got


@pytest.fixture
def client(proxy):
    with Client(proxy.address) as made:
        yield made


# -- ports --------------------------------------------------------------------


def test_a_port_is_given_once_and_to_nobody_who_connects(monkeypatch):
    """Not to another process either: it holds a name that the port has here."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    given = [ports.free_port() for _ in range(100)]
    assert len(set(given)) == 100 and max(given) < first
    with socket.socket(socket.AF_UNIX) as theirs, socket.socket() as server:
        theirs.bind(f"\0snib-test-port-{first - 1}")
        server.bind(("127.0.0.1", first - 2))
        monkeypatch.setattr(ports._random, "sample",
                            lambda *_: [given[0], first - 1, first - 2, first - 3])
        assert ports.free_port() == first - 3


# -- RESP ---------------------------------------------------------------------


def test_reader_gives_each_message_from_bytes_one_by_one():
    raw = b"+OK\r\n-ERR no\r\n:42\r\n$-1\r\n$4\r\n\r\n\x00\xff\r\n" \
          b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n*-1\r\n"
    reader = resp.Reader()
    got = []
    for byte in raw:
        reader.feed(bytes([byte]))
        while (found := reader.next()) is not None:
            got.append(found)
    assert [resp.plain(value) for value, _ in got] == [
        b"OK", RedisError("ERR no"), 42, None, b"\r\n\x00\xff", [[1], b""], None]
    assert b"".join(part for _, part in got) == raw


def test_reader_refuses_what_is_no_resp():
    for raw in (b"?\r\n", b":x\r\n", b"$1\r\nabc"):
        reader = resp.Reader()
        reader.feed(raw)
        with pytest.raises(resp.ProtocolError):
            reader.next()


# -- server -------------------------------------------------------------------


def test_server_answers_on_tcp_and_on_its_unix_socket(redis):
    redis.command("SET", "key", b"\x00\r\n\xff")
    with Client(redis.unix_path) as other:
        assert other.command("GET", "key") == b"\x00\r\n\xff"


def test_error_reply_is_raised_with_its_text(redis):
    redis.command("SET", "key", "text")
    with pytest.raises(RedisError) as caught:
        redis.command("INCR", "key")
    assert caught.value.word == "ERR"
    assert "not an integer" in caught.value.text


def test_config_lines_reach_the_server(redis_with):
    server = redis_with("maxmemory 5mb", "requirepass secret")
    with pytest.raises(RedisError) as caught:
        server.command("GET", "key")
    assert caught.value.word == "NOAUTH"
    server.login("secret")
    assert server.command("CONFIG", "GET", "maxmemory")[1] == b"5242880"


def test_restart_keeps_or_loses_the_data_and_keeps_the_port(redis):
    port = redis.port
    redis.command("SET", "key", "1", "PX", 60000)
    redis.restart(data="kept")
    assert redis.command("GET", "key") == b"1"
    redis.restart(data="lost")
    assert redis.command("GET", "key") is None
    assert redis.port == port


def test_restart_with_an_append_only_file_needs_no_save(redis_with):
    server = redis_with("appendonly yes", "appendfsync always")
    server.command("SET", "key", "1")
    server.restart(data="kept")
    assert server.command("GET", "key") == b"1"


def test_frozen_server_answers_only_after_thaw(redis):
    with redis.client() as client:
        redis.freeze()
        client.send("PING")
        with pytest.raises(TimeoutError):
            client.read(timeout=0.1)
        redis.thaw()
        assert client.read(timeout=5) == b"PONG"


def test_stop_works_on_a_frozen_server(redis):
    redis.freeze()
    redis.stop()
    assert redis.child.poll() is not None


def test_keys_tell_their_time_to_live(redis):
    redis.command("SET", "short", "1", "PX", 60000)
    redis.command("SET", "long", "1")
    keys = redis.keys()
    assert keys[b"long"] == -1 and 0 < keys[b"short"] <= 60000


def test_close_leaves_no_process_and_no_file():
    server = RedisServer()
    pid, path = server.child.pid, server.dir
    server.close()
    assert process.state_of(pid) == "" and not os.path.exists(path)


def test_server_dies_with_a_test_process_that_is_killed(tmp_path):
    program = textwrap.dedent("""
        import sys, threading
        sys.path.insert(0, sys.argv[1])
        from harness.redis_server import RedisServer
        made = []
        # From a thread that ends: the server must not end with it.
        thread = threading.Thread(target=lambda: made.append(RedisServer()))
        thread.start(); thread.join()
        assert made[0].answers()
        print(made[0].child.pid, made[0].dir, flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen([sys.executable, "-c", program, TESTS],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as tests:
        pid, path = tests.stdout.readline().split()
        assert process.state_of(int(pid)) in ("S", "R")
        tests.send_signal(signal.SIGKILL)
        tests.wait()
    wait_until(lambda: process.state_of(int(pid)) in ("", "Z"),
               what="server is gone")
    subprocess.run(["rm", "-rf", path], check=True)


# -- proxy: passing on --------------------------------------------------------


def test_proxy_passes_on_pipelines_and_names_each_reply(proxy, client):
    client.send_raw(resp.encode("SET", "a", "1") + resp.encode("GET", "a")
                    + b"PING\r\n" + resp.encode("NOSUCH"))
    assert [client.read() for _ in range(3)] == [b"OK", b"1", b"PONG"]
    assert client.read().word == "ERR"
    replies = proxy.frames("reply")
    assert [frame.command for frame in replies] == [
        "SET", "GET", "PING", "NOSUCH"]
    assert replies[1].request.argv == [b"GET", b"a"]


def test_proxy_tells_pushes_from_replies(proxy, client, redis):
    client.send("SUBSCRIBE", "one", "two")
    assert [client.read() for _ in range(2)] == [
        [b"subscribe", b"one", 1], [b"subscribe", b"two", 2]]
    redis.command("PUBLISH", "one", "hello")
    client.send("PING", "x")
    assert client.read() == [b"message", b"one", b"hello"]
    assert client.read() == [b"pong", b"x"]
    assert [frame.value[2] for frame in proxy.frames("push")] == [b"hello"]
    assert proxy.frames("reply")[-1].command == "PING"
    assert proxy.open_conns(role="subscriber") == [1]


def test_proxy_names_scripts_by_sha_and_by_what_the_test_says(proxy, client):
    proxy._classify = lambda text: "count" if "INCR" in text else ""
    sha = client.command("SCRIPT", "LOAD", COUNT).decode()
    client.command("EVALSHA", sha, 1, "n")
    client.command("EVAL", COUNT, 1, "n")
    assert [f.script for f in proxy.frames("request")] == ["", "count", "count"]
    assert proxy.count(script="count") == 2
    assert proxy.scripts[sha] == "count"


def test_proxy_reaches_a_server_by_its_unix_socket(redis):
    from .fault_proxy import FaultProxy
    with FaultProxy(redis.unix_path) as proxy, Client(proxy.address) as client:
        assert client.command("PING") == b"PONG"


def test_server_that_ends_is_seen_through_the_proxy(proxy, client, redis):
    client.command("PING")
    redis.kill()
    assert ended(client)[0] in ("fin", "rst")
    with pytest.raises(OSError):
        Client(proxy.address).command("PING")


# -- proxy: replies -----------------------------------------------------------


@pytest.mark.parametrize("then", ["rst", "fin"])
def test_reply_is_lost_after_the_execution(proxy, client, redis, then):
    rule = proxy.drop_reply(command="INCR", nth=2, then=then)
    assert client.command("INCR", "n") == 1
    client.send("INCR", "n")
    assert ended(client) == (then, b"")
    assert redis.command("GET", "n") == b"2"
    assert rule.fired == 1 and rule.frames[0].value == 2


def test_reply_is_lost_and_the_line_stays_silent(proxy, client, redis):
    rule = proxy.drop_reply(command="INCR", then="silence")
    client.send("INCR", "n")
    rule.wait_fired()
    client.send("INCR", "n")
    redis.wait_for(lambda s: s.command("GET", "n") == b"2")
    with pytest.raises(TimeoutError):
        client.read(timeout=0.05)


def test_reply_rule_for_a_script_does_not_count_noscript(proxy, client, redis):
    sha = "0" * 40
    proxy.scripts[sha] = "count"
    rule = proxy.drop_reply(script="count")
    with pytest.raises(RedisError):
        client.command("EVALSHA", sha, 1, "n")
    assert rule.fired == 0


def test_reply_is_delayed_and_those_behind_it_too(proxy, client):
    proxy.delay_reply(0.1, command="GET")
    begun = time.monotonic()
    client.send_raw(resp.encode("GET", "a") + resp.encode("PING"))
    assert client.read() is None
    assert client.read() == b"PONG"
    assert time.monotonic() - begun >= 0.1


def test_reply_is_held_until_the_test_lets_it_go(proxy, client, redis):
    rule = proxy.hold_reply(command="INCR")
    client.send("INCR", "n")
    rule.wait_fired()
    assert redis.command("GET", "n") == b"1"
    with pytest.raises(TimeoutError):
        client.read(timeout=0.05)
    rule.remove()
    assert client.read(timeout=5) == 1


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_reply_is_cut_at_each_byte(proxy, redis, how):
    redis.command("SET", "key", "abc")
    whole = b"$3\r\nabc\r\n"
    for at in range(len(whole) + 1):
        with proxy.cut_reply(at, how, command="GET"), \
                Client(proxy.address) as client:
            client.send("GET", "key")
            assert ended(client) == (how, whole[:at])


def test_reply_comes_in_pieces_of_one_byte(proxy, client, redis):
    redis.command("SET", "key", "abcdef")
    proxy.split_replies(1, pause=0.003, command="GET")
    client.send("GET", "key")
    pieces = []
    while sum(map(len, pieces)) < len(b"$6\r\nabcdef\r\n"):
        pieces.append(client.read_raw(timeout=5))
    assert b"".join(pieces) == b"$6\r\nabcdef\r\n"
    assert len(pieces) >= 6  # two may meet in the kernel, not all of them


def test_replies_are_glued_into_one_segment(proxy, client):
    proxy.merge_replies(3, command="PING")
    client.send_raw(resp.encode("PING") * 3)
    assert client.read_raw(timeout=5) == b"+PONG\r\n" * 3


def test_replies_are_glued_while_more_are_due(proxy, client, redis):
    proxy.merge_replies()
    with proxy.hold_request(times=1):
        client.send_raw(resp.encode("PING") * 5)
        redis.freeze()
    proxy.wait_for(lambda f: proxy.count(command="PING") == 5)
    redis.thaw()
    assert client.read_raw(timeout=5) == b"+PONG\r\n" * 5


@pytest.mark.parametrize("text", ["LOADING x", "BUSY x", "READONLY x"])
def test_error_takes_the_place_of_an_execution(proxy, client, redis, text):
    proxy.inject_error(text, command="INCR", times=1)
    client.send_raw(resp.encode("PING") + resp.encode("INCR", "n")
                    + resp.encode("PING"))
    assert client.read() == b"PONG"
    assert client.read() == RedisError(text)
    assert client.read() == b"PONG"
    assert redis.command("GET", "n") is None
    assert client.command("INCR", "n") == 1


def test_hostile_bytes_take_the_place_of_a_reply_after_execution(
        proxy, client, redis):
    proxy.inject(b"*2147483647\r\n$1", execute=True, command="INCR")
    client.send("INCR", "n")
    assert client.read_raw(timeout=5) == b"*2147483647\r\n$1"
    assert redis.command("GET", "n") == b"1"


# -- proxy: requests ----------------------------------------------------------


def test_request_is_lost_and_the_line_stays_silent(proxy, client, redis):
    rule = proxy.drop_request(command="INCR")
    client.send("INCR", "n")
    rule.wait_fired()
    client.send("INCR", "n")
    proxy.wait_for(lambda frame: frame.fate == "discarded")
    with pytest.raises(TimeoutError):
        client.read(timeout=0.05)
    assert redis.command("GET", "n") is None


@pytest.mark.parametrize("then", ["rst", "fin"])
def test_request_is_lost_and_the_connection_cut(proxy, client, redis, then):
    proxy.drop_request(command="INCR", then=then)
    client.send("INCR", "n")
    assert ended(client) == (then, b"")
    assert redis.command("GET", "n") is None


def test_request_is_cut_at_each_byte_and_runs_only_when_whole(proxy, redis):
    whole = resp.encode("INCR", "n")
    for at in range(len(whole) + 1):
        before = redis.command("GET", "n")
        with proxy.cut_request(at, command="INCR"), \
                Client(proxy.address) as client:
            client.send("INCR", "n")
            assert ended(client)[0] == "rst"
        if at < len(whole):
            assert redis.command("GET", "n") == before
        else:
            redis.wait_for(lambda s: s.command("GET", "n") == b"1")


def test_request_is_delayed_or_held(proxy, client, redis):
    proxy.delay_request(0.05, command="GET")
    begun = time.monotonic()
    client.command("GET", "n")
    assert time.monotonic() - begun >= 0.05
    rule = proxy.hold_request(command="INCR")
    client.send("INCR", "n")
    rule.wait_fired()
    assert redis.command("GET", "n") is None
    rule.release()
    assert client.read(timeout=5) == 1


def test_request_held_past_the_clients_end_arrives_late(proxy, client, redis):
    rule = proxy.hold_request(command="INCR")
    client.send("INCR", "n")
    rule.wait_fired()
    client.close()
    rule.release()
    redis.wait_for(lambda s: s.command("GET", "n") == b"1")


def test_requests_in_pieces_and_glued_are_executed(proxy, client):
    with proxy.split_requests(1, command="INCR"):
        assert client.command("INCR", "n") == 1
    with proxy.merge_requests(2, command="INCR"):
        client.send("INCR", "n")
        client.send("INCR", "n")
        assert [client.read(), client.read()] == [2, 3]


def test_late_copy_of_a_request_executes_when_the_test_says(
        proxy, client, redis):
    rule = proxy.duplicate(command="INCR", times=1)
    assert client.command("INCR", "n") == 1
    assert redis.command("GET", "n") == b"1"
    rule.fire_late()
    assert rule.wait_late() == 2
    assert redis.command("GET", "n") == b"2"
    assert proxy.frames("late")[0].value == 2


def test_late_copy_comes_by_itself_after_a_time(proxy, client):
    rule = proxy.duplicate(after=0.05, command="INCR",
                           preamble=[("SELECT", 0)])
    client.command("INCR", "n")
    assert rule.wait_late() == 2


# -- proxy: connections -------------------------------------------------------


def test_half_open_connection_carries_nothing_and_is_seen_by_nobody(
        proxy, client, redis):
    client.send("SUBSCRIBE", "one")
    client.read()
    rule = proxy.half_open(stage="push", role="subscriber")
    redis.command("PUBLISH", "one", "1")
    rule.wait_fired()
    assert redis.command("PUBLISH", "one", "2") == 1
    client.send("PING")
    with pytest.raises(TimeoutError):
        client.read(timeout=0.05)
    client.close()
    proxy.wait_for(lambda frame: frame.direction == "close")
    assert redis.command("PUBSUB", "NUMSUB", "one") == [b"one", 1]
    rule.remove()
    redis.wait_for(lambda s: s.command("PUBSUB", "NUMSUB", "one")[1] == 0)


def test_new_connections_are_refused_until_the_rule_goes(proxy, client):
    client.command("PING")
    with proxy.refuse():
        with pytest.raises(ConnectionRefusedError):
            Client(proxy.address)
        assert client.command("PING") == b"PONG"
    with Client(proxy.address) as other:
        assert other.command("PING") == b"PONG"


def test_new_connections_are_reset_or_hang_or_are_greeted(proxy):
    with proxy.refuse("rst"), pytest.raises(ConnectionResetError):
        with Client(proxy.address) as client:
            client.command("PING")
    with proxy.refuse("hang"), pytest.raises(TimeoutError):
        with Client(proxy.address, timeout=0.1) as client:
            client.command("PING")
    with proxy.greet(b"-ERR max number of clients reached\r\n"):
        with Client(proxy.address) as client:
            assert client.read().text == "ERR max number of clients reached"


def test_partition_holds_everything_and_heals(proxy, client, redis):
    with proxy.partition():
        client.send("INCR", "n")
        with pytest.raises(TimeoutError):
            client.read(timeout=0.05)
        assert redis.command("GET", "n") is None
    assert client.read(timeout=5) == 1


def test_one_way_partition_executes_and_tells_late(proxy, client, redis):
    with proxy.partition(up=False):
        client.send("INCR", "n")
        redis.wait_for(lambda s: s.command("GET", "n") == b"1")
        with pytest.raises(TimeoutError):
            client.read(timeout=0.05)
    assert client.read(timeout=5) == 1


def test_test_can_cut_all_connections_of_a_role(proxy, client):
    client.send("SUBSCRIBE", "one")
    client.read()
    with Client(proxy.address) as other:
        other.command("PING")
        assert proxy.cut_all(role="subscriber") == 1
        assert ended(client)[0] == "rst"
        assert other.command("PING") == b"PONG"


def test_push_is_lost_delayed_and_cut(proxy, client, redis):
    client.send("SUBSCRIBE", "one")
    client.read()
    proxy.drop_push(nth=1)
    redis.command("PUBLISH", "one", "1")
    redis.command("PUBLISH", "one", "2")
    assert client.read() == [b"message", b"one", b"2"]
    with proxy.hold_push() as held:
        redis.command("PUBLISH", "one", "3")
        held.wait_fired()
    assert client.read() == [b"message", b"one", b"3"]
    proxy.cut_push(5)
    redis.command("PUBLISH", "one", "4")
    assert ended(client) == ("rst", b"*3\r\n$")


def test_rules_match_by_connection_times_and_predicate(proxy, client):
    rule = proxy.inject_error("ERR no", conn=1, times=2,
                              where=lambda frame: frame.argv[-1] == b"x")
    assert client.command("PING", "y") == b"y"
    for _ in range(2):
        with pytest.raises(RedisError):
            client.command("PING", "x")
    assert client.command("PING", "x") == b"x"
    with Client(proxy.address) as other:
        assert other.command("PING", "x") == b"x"
    assert rule.fired == 2


def test_wait_for_fails_late_with_the_last_frames(proxy, client):
    client.command("PING")
    with pytest.raises(AssertionError) as caught:
        proxy.wait_for(lambda frame: False, timeout=0.05, what="never")
    assert "never" in str(caught.value) and "PING" in str(caught.value)


def test_proxy_carries_many_connections_at_once(proxy, redis):
    def work():
        with Client(proxy.address) as client:
            for _ in range(50):
                client.command("INCR", "n")
    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redis.command("GET", "n") == b"800"


def test_closed_proxy_leaves_no_thread_and_no_socket(redis):
    from .fault_proxy import FaultProxy
    before = threading.active_count()
    proxy = FaultProxy(redis.address)
    client = Client(proxy.address)
    client.command("PING")
    proxy.close()
    assert threading.active_count() == before
    assert ended(client)[0] in ("fin", "rst")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(proxy.address)


# -- processes and waiting ----------------------------------------------------


def test_freeze_returns_when_the_process_has_stopped():
    child = process.spawn(["sleep", "60"])
    process.freeze(child)
    assert process.state_of(child.pid) == "T"
    process.thaw(child)
    wait_until(lambda: process.state_of(child.pid) == "S", what="sleeps again")
    process.kill(child)


def test_wait_until_says_what_was_missing():
    with pytest.raises(AssertionError, match="the moon"):
        wait_until(lambda: False, timeout=0.01, what="the moon")
    with pytest.raises(AssertionError, match="the sun"):
        stays(lambda: False, 0.01, "the sun")


def test_pulse_sees_that_this_process_was_kept_from_running():
    pulse = Pulse()
    begun = time.monotonic()
    sorted(range(1_000_000), key=str)  # one call: no other thread runs
    took = (time.monotonic() - begun) * 1000
    seen = wait_until(lambda: pulse.worst_ms(begun), 5, "the delay is noted")
    assert seen > took / 4, (seen, took)
    assert pulse.worst_ms(time.monotonic()) == 0
    pulse.close()
