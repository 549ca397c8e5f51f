"""The conformance cases on every store, those of several locks as one on each
and on pairs of stores: one test a case. A program a subject, built from
SUBJECT.c and kit.c.
labels: thread"""
import os
import pathlib
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from harness.etcd_server import etcd_missing
from harness.mysql_server import mysql_missing
from harness.rabbitmq_server import rabbitmq_missing
from harness.wait import wait_until
from harness.zookeeper_server import zookeeper_missing

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR",
                                    HERE.parents[1] / "build" / "dev"))
# SNIB_PAIRS=K/N: the Kth of N shares of the pairs of a case and a store; else the
# first of SNIB_SHARE.
FIRST, SHARE = map(int, os.environ.get(
    "SNIB_PAIRS", "1/" + os.environ.get("SNIB_SHARE", "1")).split("/"))
# What the names of stores begin with that are run: "redis redlock".
ONLY = tuple(os.environ.get("SNIB_STORES", "").split()) or ("",)
STORES = ["memory", "file", "redis", "redis+unix", "rediss",
          "redis+sentinel", "redis+cluster", "postgres", "mysql", "etcd"]
PAIRS = ["memory memory", "file file2", "redis redis", "redis file",
         "memory redis", "redis+cluster redis+cluster",
         "postgres postgres", "postgres file", "mysql mysql", "mysql file",
         "etcd etcd", "etcd file"]
NEEDS = {"redis": "redis-server is not installed",
         "rediss": "redis-server or openssl is not installed",
         "redlock": "redis-server is not installed",
         "postgres": "PostgreSQL is not installed, or the store not built",
         "mysql": mysql_missing() or "the store mysql is not built",
         "etcd": etcd_missing() or "the store etcd is not built",
         "etcd3": etcd_missing() or "the store etcd is not built",
         "zookeeper": zookeeper_missing() or
         "the store zookeeper is not built",
         "zookeeper3": zookeeper_missing() or
         "the store zookeeper is not built",
         "amqp": rabbitmq_missing() or "the store rabbitmq is not built"}
# On three members of etcd or ZooKeeper, where each write waits for a majority: not all
# subjects are run there, but those whose cases are about time and order. The rest asks
# one member the same questions.
TIMED = [*STORES, "etcd3"]
ZOOS = ["zookeeper", "zookeeper3"]
ZOO = ["zookeeper zookeeper", "zookeeper file"]
RABBIT = ["amqp amqp", "amqp file"]
# A case takes most of a second of the broker's CPU, which has one core, or a quarter
# of it beside other programs; ten at once were answered after the ten seconds that a
# case waits (REQUEST_MS in kit.c).
RABBIT_AT_ONCE = 3
# A quorum and RabbitMQ have plain mutexes only; ZooKeeper has them and readers.
PLAIN = [*STORES, "redlock", "zookeeper", "amqp"]
SUBJECTS = {"lock": [*TIMED, "redlock", *ZOOS, "amqp"],
            "leave": PLAIN, "client": PLAIN, "started": PLAIN, "sequences": PLAIN,
            "rw": [*TIMED, *ZOOS], "order": TIMED, "permits": TIMED,
            "kinds": STORES,
            "semaphores": STORES, "latches": STORES, "tell": STORES,
            "value": STORES, "ring": STORES,
            "multi": PAIRS + ZOO + RABBIT, "multi_wait": PAIRS + ZOO + RABBIT,
            "multi_crowd": PAIRS + ZOO + RABBIT}
LACKS = {"zookeeper": {
    "a_newcomer_has_the_place_of_its_class": "priorities",
    "force_release_ends_the_holder_and_it_is_told_why": "forced releases",
    "a_release_after_a_forced_one_says_lost": "forced releases",
    "looks_answer_what_the_blocking_ones_do": "forced releases",
    "force_release_ends_all_readers": "forced releases",
    "force_release_ends_the_writer_and_what_it_reads_and_permits":
        "forced releases",
    "the_force_of_one_is_the_loss_of_the_whole": "forced releases",
    "updates_at_once_lose_nothing": "values",
    "values_are_read_and_written": "values",
    "params_are_set_and_read": "semaphores",
    "grants_are_drained_and_renewed": "semaphores",
    "a_client_that_closes_gives_back_what_it_shares": "semaphores",
    "kinds_can_be_mixed": "semaphores"},
    "amqp": {
    "a_newcomer_has_the_place_of_its_class": "priorities",
    "force_release_ends_the_holder_and_it_is_told_why": "forced releases",
    "a_release_after_a_forced_one_says_lost": "forced releases",
    "looks_answer_what_the_blocking_ones_do": "forced releases",
    "the_force_of_one_is_the_loss_of_the_whole": "forced releases",
    "thousands_of_names_leave_nothing_in_the_client":
        "room for thousands of names, each a queue for a day",
    "several_locks_are_waited_for_and_given_back":
        "answer from a program that does not process, so who looks sees "
        "somebody who is silent",
    "updates_at_once_lose_nothing": "values",
    "values_are_read_and_written": "values",
    "params_are_set_and_read": "semaphores",
    "grants_are_drained_and_renewed": "semaphores",
    "a_ring_and_its_leader_are_read": "rings",
    "a_ring_is_joined_and_left": "rings",
    "kinds_can_be_mixed": "semaphores"}}


def cases(subject):
    return re.findall(r"cmocka_unit_test\(\s*(\w+)\)",
                      (HERE / f"{subject}.c").read_text())


@pytest.fixture(scope="session")
def urls(tmp_path_factory):
    """By store; a file of its own for each CASE: crowds write a lot, and what
    one case waits for in vain is no other's write."""
    folder = tmp_path_factory.mktemp("db")
    urls = {"memory": "memory:conformance",
            "file": f"file:{folder}/CASE.db",
            "file2": f"file:{folder}/CASE-2.db"}
    from harness.cluster import Cluster
    from harness.certs import Authority, tls_config
    from harness.etcd_server import EtcdServer
    from harness.mysql_server import MysqlServer
    from harness.postgres_server import PostgresServer, postgres_missing
    from harness.rabbitmq_server import RabbitmqServer
    from harness.ports import free_port
    from harness.redis_server import RedisServer, redis_tls_missing
    from harness.sentinel import Watched
    from harness.zookeeper_server import ZookeeperServer
    with ExitStack() as stack:
        if shutil.which("redis-server"):
            tls, port = [], free_port()
            if not redis_tls_missing():
                papers = Authority(folder)
                tls = tls_config(port, *papers.issue("server"), papers.ca)
                urls["rediss"] = \
                    f"rediss://127.0.0.1:{port}/3?tls_ca={papers.ca}"
            server, b, c = [stack.enter_context(RedisServer(more))
                            for more in (tls, [], [])]
            urls["redis"] = f"redis://127.0.0.1:{server.port}/0"
            urls["redis+unix"] = f"redis+unix://{server.unix_path}?db=2"
            urls["redis+sentinel"] = stack.enter_context(
                Watched(replicas=2)).url
            urls["redis+cluster"] = stack.enter_context(Cluster(
                # these cases want no failover, and crowds make a server late
                config=("cluster-node-timeout 15000",))).url
            urls["redlock"] = "redlock://" + ",".join(
                f"127.0.0.1:{s.port}" for s in (server, b, c)) + "/1"
        if not postgres_missing() and has("POSTGRES", "LIBPQ"):
            urls["postgres"] = stack.enter_context(PostgresServer()).url
        if not mysql_missing() and has("MYSQL", "LIBMARIADB"):
            urls["mysql"] = stack.enter_context(MysqlServer()).url
        if not etcd_missing() and has("ETCD", "NGHTTP2"):
            urls["etcd"] = stack.enter_context(EtcdServer()).url
            three = stack.enter_context(EtcdServer(members=3))
            wait_until(three.leader, 20, "a leader")
            urls["etcd3"] = three.url
        if not zookeeper_missing() and has("ZOOKEEPER", "NO"):
            urls["zookeeper"] = stack.enter_context(
                ZookeeperServer()).url + "?session_ms=3000"
            several = stack.enter_context(ZookeeperServer(members=3))
            wait_until(several.leader, 30, "a leader")
            urls["zookeeper3"] = several.url + "?session_ms=3000"
        if not rabbitmq_missing() and has("RABBITMQ", "NO"):
            # silent for 12 s, longer than a request may be: crowds make it late
            broker = stack.enter_context(RabbitmqServer())
            urls["amqp"] = broker.url + "?heartbeat_s=6"
            urls["log of amqp"] = broker.log
        yield urls


def lacks(store, case):
    """What the case needs and the store does not have, and says so."""
    return LACKS.get(store.split()[0].rstrip("3"), {}).get(case)


def has(store, library):
    """Is the store built in?"""
    cache = BUILD / "CMakeCache.txt"
    return not cache.exists() or not re.search(
        f"(SNIB_WITH_{store}:BOOL=OFF|SNIB_{library}_INCLUDE:PATH=.*NOTFOUND)",
        cache.read_text())


def sanitized():
    cache = BUILD / "CMakeCache.txt"
    return cache.exists() and bool(
        re.search("SNIB_SANITIZE:[A-Z]*=.", cache.read_text()))


def run(path, urls, case):
    return subprocess.run([path, *urls, case], timeout=120,
                          capture_output=True, text=True)


@pytest.fixture(scope="session")
def runs(request, urls):
    """What is to be run by this session, ten at a time, with a sanitizer eight,
    three of them RabbitMQ's: a case waits, most of the time, and has names of its
    own. (With a sanitizer ctest runs little beside them: tests/CMakeLists.txt.)"""
    found = {subject: path for subject in SUBJECTS
             for path in BUILD.rglob(f"conformance.{subject}")
             if path.is_file()}
    futures = {}
    with ThreadPoolExecutor(5 if sanitized() else 7) as pool, \
            ThreadPoolExecutor(RABBIT_AT_ONCE) as of_rabbitmq:
        for item in request.session.items:
            p = item.callspec.params if hasattr(item, "callspec") else {}
            if "case" not in p or p["subject"] not in found \
                    or lacks(p["store"], p["case"]):
                continue
            at = [urls.get(one, "").replace(
                "CASE", f"{p['subject']}-{p['case']}")
                  for one in p["store"].split()]
            if all(at):
                which = of_rabbitmq if p["store"].startswith("amqp") else pool
                futures[p["store"], p["subject"], p["case"]] = which.submit(
                    run, found[p["subject"]], at, p["case"])
        yield futures


# Locks of two slots of a cluster, of ZooKeeper and of RabbitMQ are not tried in one
# step.
ONE_STEP = {"a_try_that_fails_is_seen_by_nobody",
            "who_waits_takes_nothing_behind_what_it_waits_for",
            "of_ten_tries_one_wins_and_ten_that_wait_all_do"}


def has_one(store, case):
    return not (store.startswith(("redis+cluster", "zookeeper", "amqp")) and
                case in ONE_STEP)


# Each SHAREth pair of a case and a store; other stores for the next case.
ALL = [(store, subject, case) for subject, stores in SUBJECTS.items()
       for n, case in enumerate(cases(subject))
       for k, store in enumerate(stores) if (n + k) % SHARE == FIRST - 1
       and has_one(store, case)
       and all(one.startswith(ONLY) for one in store.split())]


@pytest.mark.parametrize("store, subject, case", ALL)
def test_case(runs, urls, store, subject, case):
    lack = lacks(store, case)
    if lack:
        pytest.skip(f"{store.split()[0]}: has no {lack}, and says so")
    for one in store.split():
        if one not in urls:
            pytest.skip(NEEDS[one.partition("+")[0]])
    if (store, subject, case) not in runs:
        pytest.skip(f"conformance.{subject} is not built under {BUILD}")
    done = runs[store, subject, case].result()
    text = done.stdout + done.stderr
    if "this build has no TLS" in text:
        pytest.skip("built without TLS")
    if re.search(r"\[  SKIPPED \]|skipped: ", text):
        pytest.skip((re.findall(r"skipped: (.*)", text) or ["see case"])[0])
    if done.returncode and store.startswith("amqp"):
        text += "\n".join(urls["log of amqp"]().splitlines()[-30:])
    assert done.returncode == 0, text
    assert "1 test(s) run" in text


def test_kinds_on_a_quorum():
    pytest.skip("redlock: has plain mutexes only, and says so")


def test_kinds_on_zookeeper():
    pytest.skip("zookeeper: has mutexes and read/write locks only, and says so")


def test_kinds_on_rabbitmq():
    pytest.skip("amqp: has mutexes only, and says so")


def test_every_subject_is_run():
    assert set(SUBJECTS) == {p.stem for p in HERE.glob("*.c")} - {"kit"}


def test_the_page_of_parity_names_cases_that_exist():
    page = (HERE.parents[1] / "docs" / "PARITY.md").read_text()
    names = set(re.findall(r"`([a-z]\w{9,})`", page))
    there = set()
    for path in HERE.parent.rglob("test_*.py"):
        there.update(re.findall(r"^def (test_\w+)\(", path.read_text(), re.M))
    for path in HERE.parent.rglob("*.c"):
        there.update(re.findall(r"(\w+)\(void \*\*state\)", path.read_text()))
    names -= {"hold_max_ms"}  # an option
    assert len(names) > 140 and names <= there, names - there


def test_each_row_of_parity_has_a_case_or_a_reason():
    page = (HERE.parents[1] / "docs" / "PARITY.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")
            and not line.startswith(("| Redisson's test", "| | complaint"))]
    bare = [row for row in rows if not re.search(
        r"`\w{10,}`|not applicable: ", row.split("|")[3])]
    assert len(rows) > 100 and not bare, bare
