"""The same lock at the same moment as ShedLock's (?dialect=shedlock), in a
PostgreSQL and in a MariaDB database, with ShedLock's own client."""

import os
import re
import statistics
import subprocess
import time

import pytest

from counters import Counter
from harness import beside
from harness.beside import snib_at
from harness.foreign import Foreign, missing, shedlock
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
POLL_S = 0.1  # a waiter asks again by then


class Postgres(beside.Postgres):
    WRONG = {
        "zone": ("ALTER TABLE shedlock ALTER lock_until TYPE timestamptz",
                 "to the millisecond"),
        "whole": ("ALTER TABLE shedlock ALTER locked_at TYPE timestamp(0)",
                  "to the millisecond"),
        "key": ("ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey",
                "takes a name twice"),
        "partial": ("ALTER TABLE shedlock DROP CONSTRAINT shedlock_pkey; "
                    "CREATE UNIQUE INDEX i ON shedlock(name) "
                    "WHERE locked_by='x'", "takes a name twice"),
        "column": ("ALTER TABLE shedlock RENAME locked_by TO holder",
                   "is not ShedLock's"),
        "short": ("ALTER TABLE shedlock ALTER locked_by TYPE varchar(64)",
                  "too short a locked_by"),
        "unlogged": ("ALTER TABLE shedlock SET UNLOGGED",
                     "emptied by a crash"),
    }


class Mysql(beside.Mysql):
    WRONG = {
        "text": ("ALTER TABLE shedlock MODIFY lock_until VARCHAR(40) NOT NULL",
                 "to the millisecond"),
        "whole": ("ALTER TABLE shedlock MODIFY locked_at DATETIME NOT NULL",
                  "to the millisecond"),
        "key": ("ALTER TABLE shedlock DROP PRIMARY KEY", "takes a name twice"),
        "partial": ("ALTER TABLE shedlock DROP PRIMARY KEY, "
                    "ADD UNIQUE KEY (name, locked_by)", "takes a name twice"),
        "column": ("ALTER TABLE shedlock CHANGE locked_by holder VARCHAR(255)",
                   "is not ShedLock's"),
        "short": ("ALTER TABLE shedlock MODIFY locked_by VARCHAR(64) NOT NULL",
                  "too short a locked_by"),
        "engine": ("ALTER TABLE shedlock ENGINE=MyISAM", "make it InnoDB"),
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
    kept.own("shedlock")
    return kept


def url(base, more=""):
    return base.server.url + "?dialect=shedlock" + more


def snib(base, *words, more=""):
    return snib_at(url(base, more), *words)


def schema(base, more=""):
    done = snib(base, "doctor", "--schema", more=more)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip().rstrip(";")


@pytest.fixture
def theirs(base):
    """theirs(most_ms): a process with ShedLock's lock n."""
    why = missing(shedlock)
    if why:
        pytest.skip(why)
    made = []

    def start(most_ms=60000, name="n"):
        made.append(Foreign(shedlock(), base.jdbc, "snib", name, most_ms))
        return made[-1]
    yield start
    for each in made:
        each.close()


def row(base, column="locked_by"):
    return base.sql(f"SELECT {column} FROM shedlock WHERE name='n'")


# -- both at one lock ---------------------------------------------------------


def test_each_keeps_the_other_out_and_sees_its_release(base, drivers, theirs):
    ours, other, woken = drivers(url(base), request_ms=10000), theirs(), []
    ours.lock("n")
    for _ in range(7):
        assert other.do("lock") == "locked"
        assert ours.try_acquire("n").err == "BUSY"
        waiting = ours.start_acquire("n", wait_ms=20000)
        stays(lambda: not waiting.done(), 0.15, "it waits")
        assert other.do("unlock") == "unlocked"
        began = time.monotonic()
        grant = waiting.wait()
        woken.append(time.monotonic() - began)
        assert other.do("try") == "refused"
        other.say("lock")
        grant.release()
        assert other.line(5) == "locked"
        assert other.do("unlock") == "unlocked"
    assert statistics.median(woken) < POLL_S + 0.05, woken


def test_a_counter_that_both_increment_is_exact(base, drivers, theirs,
                                                tmp_path):
    counter = Counter(tmp_path)
    ours = [drivers(url(base), request_ms=10000) for _ in range(3)]
    others = [theirs() for _ in range(2)]
    for other in others:
        other.say(f"count {counter.path} 30")
    counter.start_ours(ours, "n", 30)
    counter.join()
    for other in others:
        assert other.line(120) == "counted 30"
    assert counter.number() == 150
    tokens = counter.tokens
    assert len(tokens) == 90 and tokens == sorted(set(tokens))


def test_a_holder_that_stands_still_is_followed_after_its_lease_and_told(
        base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    grant = ours.acquire(ours.lock("n", lease_ms=1500))
    other.say("lock")
    ours.freeze()
    assert other.line(10) == "locked"
    ours.thaw()
    grant.wait_state("lost")
    assert other.do("extend 5000") == "extended"  # nothing of ours has ended it
    assert not ours.try_acquire("n").ok


def test_one_of_theirs_that_comes_late_ends_nothing_of_ours(
        base, drivers, theirs):
    ours, other = drivers(url(base)), theirs(1000)
    assert other.do("lock") == "locked"
    grant = ours.acquire(ours.lock("n"), wait_ms=10000)
    assert other.do("unlock") == "unlocked"  # as it believes
    assert grant.renew().ok
    assert row(base).endswith(f":{grant.token}")
    grant.release()


def test_a_renewed_grant_outlasts_its_lease_beside_them(base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    grant = ours.acquire(ours.lock("n", lease_ms=900))
    stays(lambda: other.do("try") == "refused", 2.5, "it is held")
    assert grant.status().state == "held"
    grant.release()
    assert other.do("try") == "locked"


def test_tokens_rise_over_what_they_held_and_over_a_clock_set_back(
        base, drivers, theirs):
    ours, other = drivers(url(base)), theirs()
    lock, last = ours.lock("n"), 0
    for _ in range(3):
        grant = ours.acquire(lock, wait_ms=5000)
        assert grant.token > last
        last = grant.token
        grant.release()
        assert other.do("lock") == "locked" and other.do("unlock") == "unlocked"
    second = drivers(url(base))
    by = f"snib:x:{'0' * 32}:{last + 10 ** 9}"
    base.sql(f"UPDATE shedlock SET locked_by='{by}'")
    assert second.acquire(second.lock("n")).token == last + 10 ** 9 + 1


# -- lost answers, servers that end -------------------------------------------


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_an_acquire_whose_answer_is_lost_is_granted_once(base, drivers, then):
    with StreamProxy(base.server.address, base.words_of_texts) as wire:
        holder = drivers(wire.url(base.server) + "?dialect=shedlock",
                         request_ms=700)
        lock = holder.lock("n")
        for _ in range(2):
            holder.acquire(lock, wait_ms=5000).release()
        rule = wire.lose_answers("UPDATE shedlock SET lock_until="
                                 if base.words_of_texts else
                                 "UPDATE public.shedlock SET lock_until=",
                                 then=then)
        grant = holder.acquire(lock, wait_ms=8000)
        assert rule.fired == 1 and row(base).endswith(f":{grant.token}")
        grant.release()
        other = drivers(url(base))
        assert other.try_acquire(other.lock("n")).ok


def test_a_server_that_restarts_loses_no_grant(base, drivers):
    ours, other = drivers(url(base)), drivers(url(base))
    grant = ours.acquire(ours.lock("n", lease_ms=30000))
    base.server.kill()
    base.server.start()
    wait_until(lambda: grant.renew().ok, 20, "it is renewed")
    assert other.try_acquire(other.lock("n")).err == "BUSY"
    grant.release()


def test_who_gives_up_leaves_the_lock_to_others(base, drivers):
    ours, other = drivers(url(base)), drivers(url(base))
    grant = ours.acquire(ours.lock("n"))
    other.lock("n")
    said = other.start_acquire("n", wait_ms=300).answer()
    assert said.err == "TIMEOUT"
    assert grant.renew().ok
    grant.release()
    other.acquire("n").release()


# -- what is refused ----------------------------------------------------------


def test_urls_that_mean_nothing_are_refused(base, drivers):
    driver = drivers()
    for more, words in [
            ("?dialect=redisson", "?dialect= is shedlock"),
            ("?table=x", "?table= is for ?dialect=shedlock"),
            ("?dialect=shedlock&table=x%20y", "?table= is lower-case")]:
        said = driver.ask("open", id="x", url=base.server.url + more)
        assert said.err == "USAGE" and words in said.text, said


def test_a_table_that_is_not_there_is_named(base, drivers):
    for more, named in [("&table=other", "other"), ("", "shedlock")]:
        base.sql("DROP TABLE IF EXISTS shedlock")
        driver = drivers(url(base, more))
        said = driver.try_acquire(driver.lock("n"))
        assert said.err == "CONFIG" and f"{named} is not there" in said.text
        assert "doctor --schema" in said.text
        done = snib(base, "doctor", more=more)
        assert done.returncode != 0 and f"{named} is not there" in done.stdout


def test_another_table_is_another_lock(base, drivers):
    base.sql(schema(base, "&table=other"))
    if base.page == "POSTGRES.md":
        base.sql("ALTER TABLE other OWNER TO snib")
    one, two = drivers(url(base)), drivers(url(base, "&table=other"))
    one.acquire(one.lock("n"))
    two.acquire(two.lock("n")).release()


def test_a_table_that_cannot_do_is_refused_in_words(base, drivers):
    for change, words in base.WRONG.values():
        base.clear()
        base.sql(schema(base))
        base.sql(change)
        base.own("shedlock")
        driver = drivers(url(base))
        said = driver.try_acquire(driver.lock("n"))
        assert said.err == "CONFIG" and words in said.text, said


def test_shedlocks_own_table_will_do(base, drivers):
    base.clear()
    stamp = "TIMESTAMP" if base.page == "POSTGRES.md" else "TIMESTAMP(3)"
    base.sql("CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, "
             f"lock_until {stamp} NOT NULL, locked_at {stamp} NOT NULL, "
             "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))")
    base.own("shedlock")
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n"))
    assert grant.renew().ok
    grant.release()


def test_a_name_that_does_not_fit_is_told(base, drivers):
    driver = drivers(url(base))
    said = driver.try_acquire(driver.lock("n" * 65, id="x"))
    assert said.err == "USAGE" and "longer than the column" in said.text
    driver.acquire(driver.lock("n" * 64, id="y")).release()


def test_what_the_table_has_not_is_unsupported(base, drivers):
    driver = drivers(url(base))
    for kind in ("read", "write", "permits"):
        said = driver.try_acquire(driver.lock(f"k{kind}", kind=kind))
        assert said.err == "UNSUPPORTED" and "mutexes only" in said.text, said
    said = driver.try_acquire(driver.lock("d", lock_delay_ms=1000))
    assert said.err == "UNSUPPORTED" and "lock-delay" in said.text
    said = driver.ask("value_get", client="c", name="n")
    assert said.err == "UNSUPPORTED" and "mutexes only" in said.text, said


def test_a_lock_is_not_ended_by_force_but_by_hand(base, drivers):
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n", lease_ms=1500))
    done = snib(base, "force-release", "--yes", "--reason", "x",
                "n")
    assert done.returncode == 78 and "not ended by force" in done.stdout
    base.sql("UPDATE shedlock SET lock_until=locked_at WHERE name='n'")
    grant.wait_state("lost")


# -- looks --------------------------------------------------------------------


def test_who_holds_is_shown_whichever_side_it_is(base, drivers, theirs):
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n"))
    host = subprocess.run(["hostname"], text=True, stdout=subprocess.PIPE,
                          check=True).stdout.strip()
    said = snib(base, "status", "n").stdout
    assert f"held by {host}" in said and str(grant.token) in said
    assert "n: held by" in snib(base, "list").stdout
    grant.release()
    assert theirs().do("lock") == "locked"
    said = snib(base, "status", "n").stdout
    assert "not snib" in said, said
    why = snib(base, "why", "n").stdout
    assert "not snib" in why
    assert "Who waits cannot be seen on ?dialect=shedlock" in why
    assert "waiting  cannot be seen on ?dialect=shedlock\n" in said
    circles = snib(base, "deadlocks")
    assert circles.returncode == 78
    assert "cannot be seen on ?dialect=shedlock" in circles.stdout


def test_a_check_up_tells_of_the_table_and_of_other_clocks(base, drivers):
    driver = drivers(url(base))
    driver.acquire(driver.lock("n"))
    done = snib(base, "doctor")
    assert done.returncode == 0, done.stdout
    assert re.search(r"ok +dialect +the locks of ShedLock's table: 1 names, "
                     r"1 held", done.stdout), done.stdout
    later = ("locked_at + interval '1 hour'" if base.page == "POSTGRES.md" else
             "TIMESTAMPADD(HOUR, 1, locked_at)")
    base.sql(f"UPDATE shedlock SET locked_at={later}")
    done = snib(base, "doctor")
    assert re.search(r"warn +their-clock .*usingDbTime", done.stdout,
                     re.S), done.stdout


def test_columns_that_a_time_zone_changes_are_told(base, drivers):
    if base.page == "POSTGRES.md":
        pytest.skip("such columns are refused there")
    base.sql("ALTER TABLE shedlock MODIFY lock_until TIMESTAMP(3) NOT NULL "
             "DEFAULT '2000-01-01', MODIFY locked_at TIMESTAMP(3) NOT NULL "
             "DEFAULT '2000-01-01'", "SET GLOBAL time_zone='+02:00'")
    driver = drivers(url(base))
    grant = driver.acquire(driver.lock("n"))
    assert grant.renew().ok
    done = snib(base, "doctor")
    assert re.search(r"warn +time-zone .*DATETIME\(3\)", done.stdout,
                     re.S), done.stdout
    other = drivers(url(base))
    assert other.try_acquire(other.lock("n")).err == "BUSY"


def test_beside_them_in_another_time_zone(base, drivers, theirs):
    """By the table of ShedLock's page, in the server's zone, as theirs."""
    if base.page != "POSTGRES.md":
        base.sql("ALTER TABLE shedlock MODIFY lock_until TIMESTAMP(3) NOT NULL "
                 "DEFAULT '2000-01-01', MODIFY locked_at TIMESTAMP(3) NOT NULL "
                 "DEFAULT '2000-01-01'", "SET GLOBAL time_zone='+02:00'")
    else:
        base.sql("ALTER DATABASE snib SET timezone='Asia/Tokyo'")
    ours, other = drivers(url(base)), theirs()
    grant = ours.acquire(ours.lock("n"))
    assert other.do("try") == "refused"
    grant.release()
    assert other.do("try") == "locked"
    assert ours.try_acquire("n").err == "BUSY"


def test_the_rights_of_the_page_are_enough_and_needed(base, drivers):
    page = open(os.path.join(ROOT, "docs", "SHEDLOCK.md"),
                encoding="utf-8").read()
    which = "postgres" if base.page == "POSTGRES.md" else "mysql"
    text = re.search(rf"<!-- run: rights-{which} -->\n```sql\n(.*?)```", page,
                     re.S)[1]
    who = "app" if base.page == "POSTGRES.md" else "app@'%'"
    base.sql(f"CREATE USER {who}")
    if base.page == "POSTGRES.md":
        base.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    where = base.server.url.replace("snib@", "app@") + "?dialect=shedlock"
    driver = drivers(where)
    said = driver.try_acquire(driver.lock("n"))
    assert said.err in ("DENIED", "CONFIG"), said
    base.sql(*[line for line in text.strip().split(";") if line.strip()])
    wait_until(lambda: driver.start_acquire("n", wait_ms=2000).answer().ok, 20,
               "rights")
    base.sql("REVOKE UPDATE ON shedlock FROM " + who)
    done = snib_at(where, "doctor")
    assert re.search(r"fail +permissions +missing: UPDATE on \S*shedlock",
                     done.stdout), done.stdout
