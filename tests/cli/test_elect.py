"""snib elect: one leader at a time, term after term."""

import json
import os
import signal
import time

import pytest

from conftest import children_of, eventually, keeper_of, kill, runs

# Holds a kernel lock while it lives (its sleep inherits it): a second one at
# the same time says so. Then it writes term and pid, and goes on.
LEADER = ('exec 9>"$0.flock"; flock -n 9 || echo overlap >>"$0.bad"; '
          'echo "$SNIB_TERM $$" >>"$0.terms"; ')


class Election:
    """Candidates of one election that all work on one set of files."""

    def __init__(self, store, name="e"):
        self.store, self.name = store, name
        self.work = store.path("work")

    def candidate(self, *options, then="exec sleep 1000", **more):
        return self.store.start("elect", "-q", *options, self.name, "--",
                                "sh", "-c", LEADER + then, self.work, **more)

    def rows(self):
        try:
            with open(self.work + ".terms") as file:
                return [tuple(map(int, line.split())) for line in file
                        if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def wait_terms(self, count, limit=20.0):
        return eventually(lambda: len(self.rows()) >= count and self.rows(),
                          "%d terms" % count, limit)

    def check(self):
        terms = [term for term, pid in self.rows()]
        assert terms == sorted(set(terms)), terms
        assert not os.path.exists(self.work + ".bad")


@pytest.fixture
def election(store):
    made = Election(store)
    yield made
    made.check()


def leader_of(candidates, pid):
    """The candidate whose command has that pid."""
    for p in candidates:
        if p.poll() is None and pid in children_of(p.pid):
            return p
    return None


def test_the_command_knows_its_term_and_once_gives_its_status(store):
    done = store.run("elect", "-q", "--once", "--status-fd", "2", "e", "--",
                     "sh", "-c", 'echo "$SNIB_TERM $SNIB_TOKEN $SNIB_NAME"; '
                     'exit 7')
    assert done.returncode == 7
    term, token, name = done.stdout.split()
    assert term == token and int(term) > 0 and name == "e"
    said = json.loads(done.stderr)
    assert said["by"] == "command" and said["exit"] == 7
    assert said["token"] == int(term)
    assert not store.held("e")


def test_it_leads_again_each_time_the_command_ends(election):
    p = election.candidate("--pause", "0", then="exit 0")
    election.wait_terms(4)
    assert p.poll() is None
    kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=20) == 128 + signal.SIGTERM
    assert not election.store.held("e")


def test_a_leader_that_ends_hands_over_at_once(election):
    mark = election.store.path("go")
    os.mkfifo(mark)
    first = election.candidate("--once", then="read line <%s" % mark)
    election.wait_terms(1)
    second = election.candidate()
    eventually(lambda: election.store.waiters("e") == 1, "a candidate")
    with open(mark, "w") as file:
        file.write("go\n")
    assert first.wait(timeout=20) == 0
    election.wait_terms(2, limit=5.0)  # the lease would be 30 s
    assert second.poll() is None


def test_three_candidates_and_leaders_that_die(election):
    options = ("--pause", "0", "--ttl", "5s")
    crowd = [election.candidate(*options) for _ in range(3)]
    eventually(lambda: election.store.waiters("e") == 2, "two candidates")

    # The leader itself is killed: its keeper ends the command.
    rows = election.wait_terms(1)
    first = leader_of(crowd, rows[0][1])
    kill(first.pid, signal.SIGKILL)
    rows = election.wait_terms(2)
    assert not runs(rows[0][1])

    # The next one's keeper is killed: the command too, and it stands again.
    second = leader_of(crowd, rows[1][1])
    assert second not in (None, first)
    kill(keeper_of(second.pid), signal.SIGKILL)
    rows = election.wait_terms(3)
    assert not runs(rows[1][1])
    third = leader_of(crowd, rows[2][1])
    assert third not in (None, first, second)
    eventually(lambda: election.store.waiters("e") == 1, "it stands again")
    assert second.poll() is None

    # The command alone is killed: the term is over, the other one leads.
    kill(rows[2][1], signal.SIGKILL)
    rows = election.wait_terms(4)
    assert leader_of(crowd, rows[3][1]) is second
    for p in (second, third):
        kill(p.pid, signal.SIGTERM)
    for p in (second, third):
        assert p.wait(timeout=20) == 128 + signal.SIGTERM
    assert not election.store.held("e")


def test_the_command_of_a_lost_term_is_dead_before_another_leads(election):
    options = ("--pause", "0", "--ttl", "1s")
    crowd = [election.candidate(*options) for _ in range(2)]
    rows = election.wait_terms(1)
    eventually(lambda: election.store.waiters("e") == 1, "a candidate")
    first = leader_of(crowd, rows[0][1])
    keeper = keeper_of(first.pid)
    kill(keeper, signal.SIGSTOP)  # nobody renews: the flock shows an overlap
    rows = election.wait_terms(2)
    assert not runs(rows[0][1])
    # The keeper that hangs is no obstacle: it is ended, and a new one stands.
    eventually(lambda: not runs(keeper), "the hung keeper is gone", 20.0)
    eventually(lambda: election.store.waiters("e") == 1, "it stands again")
    assert first.poll() is None


def test_a_signal_ends_a_leader_whatever_its_command_says(election):
    p = election.candidate(then='trap "exit 0" TERM; while :; do sleep 0.05; '
                                'done')
    election.wait_terms(1)
    kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=20) == 128 + signal.SIGTERM
    assert not election.store.held("e")


def test_a_signal_ends_a_candidate_that_waits(election):
    election.candidate()
    election.wait_terms(1)
    p = election.candidate()
    eventually(lambda: election.store.waiters("e") == 1, "a candidate")
    kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=20) == 128 + signal.SIGINT
    assert election.store.waiters("e") == 0


def test_a_signal_ends_the_pause(election):
    p = election.candidate("--pause", "1h", then="exit 0")
    election.wait_terms(1)
    eventually(lambda: not children_of(p.pid), "the term is over")
    kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=20) == 128 + signal.SIGTERM


def test_a_command_that_died_of_int_ends_it(election):
    p = election.candidate(then='kill -INT $$')
    assert p.wait(timeout=20) == 128 + signal.SIGINT


def test_the_longest_term_rotates_the_leaders(election):
    options = ("--pause", "0", "--max-run", "200ms")
    crowd = [election.candidate(*options) for _ in range(2)]
    seen = set()

    def all_have_led():
        for _, pid in election.rows()[-1:]:  # who led before is no more
            seen.update(p.pid for p in crowd if pid in children_of(p.pid))
        return len(seen) == 2
    eventually(all_have_led, "both have led", 20.0)


def test_failures_make_the_pause_longer(mapped):
    p = mapped.start("elect", "--pause", "10ms", "e", "--", "sh", "-c",
                     "exit 3")
    said = [p.stderr.readline() for _ in range(4)]
    kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=20) == 128 + signal.SIGTERM
    assert [line.rsplit(" ", 1)[1].strip() for line in said] == [
        "10ms", "20ms", "40ms", "80ms"]
    assert all("(exited, exit 3)" in line for line in said)


def test_each_term_has_its_status_line(mapped):
    p = mapped.start("elect", "-q", "--pause", "0", "--status-fd", "1", "e",
                     "--", "sh", "-c", "exit 3")
    said = [json.loads(p.stdout.readline()) for _ in range(3)]
    kill(p.pid, signal.SIGTERM)
    p.wait(timeout=20)
    assert [line["exit"] for line in said] == [3, 3, 3]
    terms = [line["token"] for line in said]
    assert terms == sorted(set(terms))


def test_no_leader_in_time(election):
    election.candidate()
    election.wait_terms(1)
    done = election.store.run("elect", "-q", "--wait", "200ms", "e", "--",
                              "true")
    assert done.returncode == 75


def test_a_command_that_is_not_there_ends_it(mapped):
    assert mapped.run("elect", "e", "--", "/no/such").returncode == 127
    assert not mapped.held("e")


def test_a_store_that_is_not_there_is_waited_for_until_the_limit(mapped):
    done = mapped.run("elect", "--wait", "300ms", "--store",
                      "redis://127.0.0.1:1", "e", "--", "true")
    assert done.returncode in (69, 78)  # 78: no redis in this build


@pytest.mark.parametrize("argv, word", [
    (["e"], "command is missing"),
    (["a", "b", "--", "true"], "an election has one"),
    (["--", "true"], "expected"),
    (["--observe", "e", "--", "true"], "takes no command"),
    (["--observe", "--wait", "1s", "e"], "--wait is for a campaign"),
    (["--json", "e", "--", "true"], "--json is for --observe"),
    (["--pause", "5", "e", "--", "true"], "--pause"),
    (["--kind", "read", "e", "--", "true"], "unknown option"),
])
def test_bad_input(mapped, argv, word):
    done = mapped.run("elect", *argv)
    assert done.returncode == 64
    if argv != ["--", "true"]:
        assert word in done.stderr


def test_observers_see_each_leader(election):
    store = election.store
    done = store.run("elect", "--observe", "--once", "e")
    assert done.returncode == 0 and done.stdout == "e: no leader\n"
    watcher = store.start("elect", "--observe", "--json", "e")
    first = json.loads(watcher.stdout.readline())
    assert first["term"] == 0 and first["leader"] is None
    p = election.candidate("--reason", "release 4.2")
    (term, pid), = election.wait_terms(1)
    seen = json.loads(watcher.stdout.readline())
    assert seen["term"] == term and seen["leader"]["id"] == "release 4.2"
    assert seen["leader"]["pid"] in (p.pid, keeper_of(p.pid))
    done = store.run("elect", "--observe", "--once", "e")
    assert "led by" in done.stdout and '"release 4.2"' in done.stdout
    assert done.stdout.rstrip().endswith("term %d" % term)
    since = time.gmtime(seen["leader"]["since_ms"] // 1000)
    assert time.strftime(" since %Y-%m-%dT%H:%M:%SZ,", since) in done.stdout
    status = store.status("e")
    assert status["token"] == term
    assert status["holders"][0]["reason"] == "release 4.2"
    kill(p.pid, signal.SIGTERM)
    p.wait(timeout=20)
    assert json.loads(watcher.stdout.readline())["term"] == 0
    watcher.kill()


def test_a_leader_goes_on_after_its_store_was_away(redis):
    """The store dies: the command is stopped, and led again when it is back."""
    election = Election(redis)
    p = election.candidate("--pause", "50ms", "--ttl", "1s")
    (_, pid), = election.wait_terms(1)
    redis.server.kill()
    eventually(lambda: not runs(pid), "the command is stopped")
    eventually(lambda: not keeper_of(p.pid), "the keeper is gone", 20.0)
    redis.server.start()
    election.wait_terms(2, limit=60.0)
    assert p.poll() is None
    kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=20) == 128 + signal.SIGTERM
    election.check()
