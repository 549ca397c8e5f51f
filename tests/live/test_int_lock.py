"""The same lock at the same moment as Spring Integration's JdbcLockRegistry
(?dialect=int_lock), in a PostgreSQL and in a MariaDB database, with Spring's own
client.

The mixed counter is a file to which both sides add one by reading, a pause and
writing, under the lock: whatever is lost, two were inside at once.
"""

import json
import os
import re
import statistics
import time

import pytest

from counters import Counter
from harness import beside
from harness.beside import snib_at
from harness.foreign import Foreign, missing, spring
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TTL_MS = 4000
POLL_S = 0.1  # a waiter asks again by then, of either side
KEY = "7b8b965a-d4bc-30e4-9ab5-1de7b31363a1"  # "n"


class Postgres(beside.Postgres):
    update = "UPDATE public.INT_LOCK SET client_id"
    ours = ("CREATE TABLE INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, REGION "
            "VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), CREATED_DATE TIMESTAMP "
            "NOT NULL, CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION))")
    later = "CREATED_DATE + interval '1 hour'"
    WRONG = {
        "zone": ("ALTER TABLE INT_LOCK ALTER CREATED_DATE TYPE timestamptz",
                 "to the millisecond"),
        "whole": ("ALTER TABLE INT_LOCK ALTER CREATED_DATE TYPE timestamp(0)",
                  "to the millisecond"),
        "key": ("ALTER TABLE INT_LOCK DROP CONSTRAINT INT_LOCK_pkey",
                "takes a key twice"),
        "one": ("ALTER TABLE INT_LOCK DROP CONSTRAINT INT_LOCK_pkey; "
                "CREATE UNIQUE INDEX i ON INT_LOCK(LOCK_KEY, CLIENT_ID)",
                "takes a key twice"),
        "column": ("ALTER TABLE INT_LOCK RENAME CLIENT_ID TO holder",
                   "is not Spring Integration 6's"),
        "seven": ("ALTER TABLE INT_LOCK ADD EXPIRED_AFTER TIMESTAMP",
                  "as version 7's has"),
        "short": ("ALTER TABLE INT_LOCK ALTER CLIENT_ID TYPE char(32)",
                  "too short a CLIENT_ID"),
    }


class Mysql(beside.Mysql):
    update = "UPDATE INT_LOCK SET CLIENT_ID"
    ours = ("CREATE TABLE INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, REGION "
            "VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), CREATED_DATE "
            "DATETIME(6) NOT NULL, CONSTRAINT INT_LOCK_PK PRIMARY KEY "
            "(LOCK_KEY, REGION)) ENGINE=InnoDB")
    later = "TIMESTAMPADD(HOUR, 1, CREATED_DATE)"
    WRONG = {
        "whole": ("ALTER TABLE INT_LOCK MODIFY CREATED_DATE DATETIME NOT NULL",
                  "to the millisecond"),
        "key": ("ALTER TABLE INT_LOCK DROP PRIMARY KEY", "takes a key twice"),
        "one": ("ALTER TABLE INT_LOCK DROP PRIMARY KEY, "
                "ADD UNIQUE KEY (LOCK_KEY, CLIENT_ID)", "takes a key twice"),
        "column": ("ALTER TABLE INT_LOCK CHANGE CLIENT_ID holder CHAR(36)",
                   "is not Spring Integration 6's"),
        "seven": ("ALTER TABLE INT_LOCK ADD EXPIRED_AFTER DATETIME(6)",
                  "as version 7's has"),
        "short": ("ALTER TABLE INT_LOCK MODIFY CLIENT_ID CHAR(32)",
                  "too short a CLIENT_ID"),
        "engine": ("ALTER TABLE INT_LOCK ENGINE=MyISAM", "make it InnoDB"),
    }


@pytest.fixture(scope="module", params=[Postgres, Mysql],
                ids=["postgres", "mysql"])
def kept(request):
    if request.param.missing():
        pytest.skip(request.param.missing())
    made = request.param()
    yield made
    made.server.close()


@pytest.fixture
def base(kept, drivers):
    said = drivers().ask("open", id="x", url=kept.needs)
    if said.err == "UNSUPPORTED":
        pytest.skip(f"the store {kept.needs.split(':')[0]}: is not built in")
    kept.clear()
    kept.sql(schema(kept))
    kept.own("INT_LOCK")
    return kept


def url(base, more=""):
    return f"{base.server.url}?dialect=int_lock&ttl={TTL_MS}ms{more}"


def snib(base, *words, more=""):
    return snib_at(url(base, more), *words)


def schema(base, more=""):
    done = snib(base, "doctor", "--schema", more=more)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip().rstrip(";")


@pytest.fixture
def theirs(base):
    """theirs(zone): a process with Spring's lock n."""
    why = missing(spring)
    if why:
        pytest.skip(why)
    made = []

    def start(zone="UTC", name="n"):
        java, *rest = spring()
        made.append(Foreign((java, f"-Duser.timezone={zone}", *rest), base.jdbc,
                            "snib", name, TTL_MS))
        return made[-1]
    yield start
    for each in made:
        each.close()


def holder(base):
    return base.sql(f"SELECT CLIENT_ID FROM INT_LOCK WHERE LOCK_KEY='{KEY}'")


# -- both at one lock ---------------------------------------------------------


def test_each_keeps_the_other_out_and_sees_its_release(base, drivers, theirs):
    ours, other, woken = drivers(url(base)), theirs(), []
    ours.lock("n")
    for _ in range(5):
        other.lock()
        assert ours.try_acquire("n").err == "BUSY"
        waiting = ours.start_acquire("n", wait_ms=20000)
        stays(lambda: not waiting.done(), 0.15, "it waits")
        other.unlock()
        began = time.monotonic()
        grant = waiting.wait()
        woken.append(time.monotonic() - began)
        assert holder(base).startswith("snib:")
        assert other.do("try") == "refused"
        other.say("lock")
        grant.release()
        began = time.monotonic()
        assert other.line(5) == "locked"
        woken.append(time.monotonic() - began)
        other.unlock()
    assert statistics.median(woken) < POLL_S + 0.05, woken


def test_a_counter_that_both_increment_is_exact(base, drivers, theirs,
                                                tmp_path):
    counter = Counter(tmp_path)
    ours = [drivers(url(base)) for _ in range(3)]
    others = [theirs() for _ in range(2)]
    for other in others:
        other.say(f"count {counter.path} 20")
    counter.start_ours(ours, "n", 30)
    counter.join()
    for other in others:
        assert other.line(120) == "counted 20"
    assert counter.number() == 130
    tokens = counter.tokens
    assert len(tokens) == 90 and tokens == sorted(set(tokens))


def test_a_holder_that_stands_still_is_followed_after_ttl_and_told(
        base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    grant = ours.acquire(ours.lock("n", lease_ms=30000))
    other.say("lock")
    ours.freeze()
    assert other.line(10) == "locked"
    ours.thaw()
    grant.wait_state("lost")
    assert other.do("renew") == "renewed"  # nothing of ours has ended it
    assert not ours.try_acquire("n").ok


def test_one_of_theirs_that_stands_still_is_followed_and_ends_nothing_of_ours(
        base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    other.lock()
    other.freeze()
    grant = ours.acquire(ours.lock("n"), wait_ms=10000)
    other.thaw()
    assert other.do("renew").startswith("error")
    other.do("unlock")  # as it believes
    assert grant.renew().ok
    assert holder(base).startswith("snib:")
    grant.release()


def test_a_renewed_grant_outlasts_ttl_beside_them(base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    grant = ours.acquire(ours.lock("n", lease_ms=30000))
    stays(lambda: other.do("try") == "refused", 2.5 * TTL_MS / 1000,
          "it is held")
    assert grant.status().state == "held"
    grant.release()
    assert other.do("try") == "locked"


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_beside_them_in_another_time_zone(base, drivers, theirs, zone):
    ours, other = drivers(url(base)), theirs(zone)
    grant = ours.acquire(ours.lock("n"))
    assert other.do("try") == "refused"
    grant.release()
    assert other.do("try") == "locked"
    assert ours.try_acquire("n").err == "BUSY"


def test_names_are_keys_as_theirs(base, drivers, theirs):
    driver = drivers(url(base))
    uuid = "F97C5D29-941B-3B1B-AFDA-B0874906AB82"
    names = ("nightly", "n" * 200, "n\u00e4chtlich", uuid)
    for i, name in enumerate(names):
        other = theirs(name=name)
        grant = driver.acquire(driver.lock(name, id=f"l{i}"))
        assert other.do("try") == "refused", name
        grant.release()
        assert other.do("try") == "locked", name
        other.close()


# -- lost answers, servers that end -------------------------------------------


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_an_acquire_whose_answer_is_lost_is_granted_once(base, drivers, then):
    with StreamProxy(base.server.address, base.words_of_texts) as wire:
        driver = drivers(wire.url(base.server) +
                         f"?dialect=int_lock&ttl={TTL_MS}ms", request_ms=700)
        lock = driver.lock("n")
        for _ in range(2):
            driver.acquire(lock, wait_ms=5000).release()
        rule = wire.lose_answers(base.update, then=then)
        grant = driver.acquire(lock, wait_ms=8000)
        assert rule.fired == 1 and grant.renew().ok
        grant.release()
        other = drivers(url(base))
        assert other.try_acquire(other.lock("n")).ok


def test_a_server_that_restarts_loses_no_grant(base, drivers):
    ours, other = drivers(url(base, "")), drivers(url(base))
    grant = ours.acquire(ours.lock("n", lease_ms=30000))
    base.server.kill()
    base.server.start()
    if grant.renew().ok:  # the server was back within ttl
        assert other.try_acquire(other.lock("n")).err == "BUSY"
        grant.release()
    wait_until(lambda: other.start_acquire(
        other.lock("n", id="again"), wait_ms=2000).answer().ok, 20, "it is free")


# -- what is refused ----------------------------------------------------------


def test_urls_that_mean_nothing_are_refused(base, drivers):
    driver = drivers()
    for more, words in [
            ("?ttl=10s", "?region= and ?ttl= are for ?dialect=int_lock"),
            ("?dialect=int_lock&ttl=10", "?ttl= is for how long"),
            ("?dialect=int_lock&region=", "?region= is 1 to 100"),
            ("?dialect=int_lock&table=x%20y", "?table= is letters")]:
        said = driver.ask("open", id="x", url=base.server.url + more)
        assert said.err == "USAGE" and words in said.text, said


def test_a_table_that_is_not_there_is_named(base, drivers):
    base.sql("DROP TABLE INT_LOCK")
    driver = drivers(url(base))
    said = driver.try_acquire(driver.lock("n"))
    assert said.err == "CONFIG" and "INT_LOCK is not there" in said.text
    assert "doctor --schema" in said.text
    done = snib(base, "doctor")
    assert done.returncode != 0 and "INT_LOCK is not there" in done.stdout


def test_a_table_that_cannot_do_is_refused_in_words(base, drivers):
    for change, words in base.WRONG.values():
        base.clear()
        base.sql(schema(base))
        base.sql(change)
        base.own("INT_LOCK")
        driver = drivers(url(base))
        said = driver.try_acquire(driver.lock("n"))
        assert said.err == "CONFIG" and words in said.text, said


def test_springs_own_table_will_do(base, drivers):
    base.clear()
    base.sql(base.ours)
    base.own("INT_LOCK")
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n"))
    assert grant.renew().ok
    grant.release()


def test_another_region_is_another_lock(base, drivers):
    one, two = drivers(url(base)), drivers(url(base, "&region=other one"
                                               .replace(" ", "%20")))
    one.acquire(one.lock("n"))
    two.acquire(two.lock("n")).release()


def test_what_the_table_has_not_is_unsupported(base, drivers):
    driver = drivers(url(base))
    for kind in ("read", "write", "permits"):
        said = driver.try_acquire(driver.lock(f"k{kind}", kind=kind))
        assert said.err == "UNSUPPORTED" and "mutexes only" in said.text, said
    said = driver.try_acquire(driver.lock("1-2-3-4-5"))
    assert said.err == "UNSUPPORTED" and "UUID" in said.text, said
    done = snib(base, "list")
    assert done.returncode != 0 and "cannot be listed" in done.stdout


def test_who_insists_on_a_longer_lease_than_there_is_is_refused(base, drivers):
    most = TTL_MS * 3 // 4
    driver = drivers(url(base))
    lock = driver.lock("n", lease_ms=most + 1, fixed=1)
    said = driver.try_acquire(lock)
    assert said.err == "USAGE" and f"{most} ms at most" in said.text, said
    done = snib(base, "run", "m", "--", "true")
    assert done.returncode == 64 and f"{most} ms at most" in done.stdout, \
        done.stdout
    assert snib(base, "run", "-t", "3s", "m", "--", "true").returncode == 0
    driver.acquire(driver.lock("o", id="o")).release()  # it gets less


def test_a_lock_is_not_ended_by_force_but_by_hand(base, drivers):
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n", lease_ms=1500))
    done = snib(base, "force-release", "--yes", "--reason", "x", "n")
    assert done.returncode == 78 and "not ended by force" in done.stdout
    base.sql(f"DELETE FROM INT_LOCK WHERE LOCK_KEY='{KEY}'")
    grant.wait_state("lost")
    done = snib(base, "force-release", "n")  # it is free, and nobody is asked
    assert done.returncode == 78 and "not ended by force" in done.stdout


# -- looks --------------------------------------------------------------------


def test_who_holds_is_shown_whichever_side_it_is(base, drivers, theirs):
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n"))
    said = snib(base, "status", "n").stdout
    assert str(grant.token) in said, said
    assert re.search(r"^n: held by a client of snib \(request [0-9a-f]{16}\) "
                     r"for .*, lease ", said), said
    seen = json.loads(snib(base, "status", "--json", "n").stdout)
    named = f"a client of snib (request {seen['holders'][0]['request'][:16]})"
    assert f"\n  holder   {named}\n" in said, (said, seen)
    assert "\n  waiting  cannot be seen on ?dialect=int_lock\n" in said, said
    why = snib(base, "why", "n").stdout
    assert f"held by {named}, for " in why, why
    assert "Who waits cannot be seen on ?dialect=int_lock. " in why, why
    done = snib(base, "try", "--ttl", "2s", "n", "--", "true")
    assert f"held by {named} for " in done.stdout, done
    done = snib(base, "wait", "--wait", "300ms", "n")
    assert f"held by {named} for " in done.stdout, done
    led = snib(base, "elect", "--observe", "--once", "n").stdout
    assert re.fullmatch(f"n: led by a client of snib since [0-9TZ:-]*, "
                        f"term {grant.token}\n", led), led
    grant.release()
    assert theirs().do("lock") == "locked"
    said = snib(base, "status", "n").stdout
    assert "not snib" in said, said


def test_a_check_up_tells_of_the_table_and_of_other_clocks(base, drivers):
    driver = drivers(url(base))
    driver.acquire(driver.lock("n"))
    done = snib(base, "doctor")
    assert done.returncode == 0, done.stdout
    assert re.search(r"ok +dialect +the locks of Spring Integration's INT_LOCK: "
                     r"1 names, 1 held; .*leases are 3000 at most",
                     " ".join(done.stdout.split())), done.stdout
    base.sql(f"UPDATE INT_LOCK SET CREATED_DATE={base.later}")
    done = snib(base, "doctor")
    assert re.search(r"warn +their-clock .*NTP", done.stdout, re.S), done.stdout


def test_the_rights_of_the_page_are_enough_and_needed(base, drivers):
    page = open(os.path.join(ROOT, "docs", "INT_LOCK.md"),
                encoding="utf-8").read()
    which = "postgres" if base.page == "POSTGRES.md" else "mysql"
    text = re.search(rf"<!-- run: rights-{which} -->\n```sql\n(.*?)```", page,
                     re.S)[1]
    who = "app" if base.page == "POSTGRES.md" else "app@'%'"
    base.sql(f"CREATE USER {who}")
    if base.page == "POSTGRES.md":
        base.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    where = url(base).replace("snib@", "app@")
    driver = drivers(where)
    said = driver.try_acquire(driver.lock("n"))
    assert said.err in ("DENIED", "CONFIG"), said
    base.sql(*[line for line in text.strip().split(";") if line.strip()])
    wait_until(lambda: driver.start_acquire("n", wait_ms=2000).answer().ok, 20,
               "rights")
    base.sql("REVOKE UPDATE ON INT_LOCK FROM " + who)
    done = snib_at(where, "doctor")
    assert re.search(r"fail +permissions +missing: UPDATE on \S*INT_LOCK",
                     done.stdout), done.stdout
