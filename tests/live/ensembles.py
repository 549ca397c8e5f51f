"""What becomes of locks when members of an ensemble are lost is the same in each
store that is one: as tests that the module of a store takes over. It has

    MORE    at the end of its URLs: ?session_ms=1500, say, or nothing
    three   a fixture: an ensemble of three (harness.ensemble) that has a leader

And what both stores lose connections by, and look for two owners with.
"""

import os
import subprocess
import threading

from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

SNIB = os.environ.get("SNIB_BIN", "")


class Wire(StreamProxy):
    """A proxy that knows names, which stand in what is sent as they are. Of the
    piece number `cut_at` of what clients send the answer is lost, as `then`
    says. at: its URL."""

    def __init__(self, server, more=""):
        super().__init__(server.address, words_of_texts=True)
        scheme = server.url.partition(":")[0]
        self.at = f"{scheme}://127.0.0.1:{self.port}{more}"
        self.pieces = 0
        self.cut_at = self.then = None

    def _look(self, pair, data):
        self.pieces += 1
        if self.pieces == self.cut_at:
            pair["deaf"] = self.then
        super()._look(pair, data)


BODY = """
exec 9> "$1/mutex"
flock -n 9 || { echo overlap >> "$1/overlaps"; exit 1; }
sleep 0.02
echo "$SNIB_TOKEN" >> "$1/tokens"
"""


class Crowd:
    """Processes that take one lock again and again, and look whether they are
    alone: flock(2) refuses a second one."""

    def __init__(self, url, folder, count=4):
        self.url, self.folder, self.stop = url, str(folder), False
        self.done, self.said = 0, []
        (folder / "tokens").touch()
        self.threads = [threading.Thread(target=self._run)
                        for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stop:
            made = subprocess.run(
                [SNIB, "run", "--ttl", "3s", "--wait", "60s", "crowd", "--",
                 "sh", "-c", BODY, "sh", self.folder], text=True,
                env={**os.environ, "SNIB_URL": self.url},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                check=False)
            self.done += made.returncode == 0
            if made.returncode:
                self.said.append(made.stdout)

    def tokens(self):
        with open(self.folder + "/tokens", encoding="ascii") as file:
            return [int(line) for line in file if line.strip()]

    def goes_on(self, count=10):
        """So many more of them are served."""
        before = len(self.tokens())
        wait_until(lambda: len(self.tokens()) > before + count, 60, "it goes on")

    def end(self):
        self.stop = True
        for thread in self.threads:
            thread.join()
        assert not os.path.exists(self.folder + "/overlaps")
        tokens = self.tokens()
        assert tokens == sorted(set(tokens))
        return len(tokens)


def lose(ensemble, member, what):
    if what == "kill":
        member.kill()
    elif what == "freeze":
        member.freeze()
    else:
        ensemble.cut_off(member)


def bring_back(ensemble, member, what):
    if what == "kill":
        member.start(ensemble.members)
    elif what == "freeze":
        member.thaw()
    else:
        ensemble.join_again()
    wait_until(lambda: ensemble.answers(member), 40, "it is back")


def lose_leaders(ensemble, url, folder, what):
    """Twice the leader is lost, and comes back. Nobody has the lock beside
    another one, and tokens rise."""
    crowd = Crowd(url, folder)
    try:
        crowd.goes_on()
        for _ in range(2):
            leader = ensemble.leader()
            lose(ensemble, leader, what)
            wait_until(lambda lost=leader: ensemble.led_by_others(lost), 40,
                       "a new leader")
            crowd.goes_on()
            bring_back(ensemble, leader, what)
            crowd.goes_on()
    finally:
        for member in ensemble.members:
            if member.child.poll() is None:
                member.thaw()
        count = crowd.end()
    assert count > 40


def test_an_old_leader_that_wakes_up_renews_nothing(request, three, drivers):
    """It stands still for longer than the lease while another one leads. Its
    clients ask it, and nobody else, to renew."""
    leader, more = three.leader(), request.module.MORE
    others = [m for m in three.members if m is not leader]
    holder = drivers(three.url_of(leader) + more, request_ms=30000)
    grant = holder.acquire(holder.lock("n", lease_ms=4000))
    leader.freeze()
    rival = drivers(three.url_of(*others) + more)
    got = rival.acquire(rival.lock("n", lease_ms=30000), wait_ms=40000,
                        timeout=50)
    leader.thaw()
    stays(lambda: holder.ask("renew", id=grant.id, wait_ms=100).err != "OK", 3)
    assert got.renew().ok
    got.release()


def test_a_member_that_is_away_is_passed_by(three, drivers):
    three.members[0].kill()
    holder = drivers(three.url)
    holder.acquire(holder.lock("n"), wait_ms=15000).release()


def test_without_a_majority_nobody_gets_a_lock(three, drivers):
    for member in three.members[1:]:
        member.kill()
    holder = drivers(three.url, request_ms=1000)
    said = holder.ask("acquire", lock=holder.lock("n"), id="g", wait_ms=2500)
    assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT"), said
