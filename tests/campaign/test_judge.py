"""Both judges of a history, on recorded ones and on what is planted in them;
the second one (judge/) alone on small ones, each beside the nearest that is
wrong, or right."""

import copy
import json
import os
import shutil
import subprocess

import pytest

import campaign
import checker
import second
import soak
from checker import MS
from test_checker import Tale

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded")

pytestmark = pytest.mark.skipif(bool(second.missing()),
                                reason=second.missing())


class Story(Tale):
    """A hand-made history for the second judge."""

    def release(self, p, asked, at, token, err="", **more):
        super().release(p, asked, at, token, **more)
        self.lines[-1]["err"] = err
        return self

    def told(self, p, at, token, state="lost", reason="expired"):
        super().told(p, at, token, state)
        self.lines[-1]["reason"] = reason
        return self

    def fence(self, at, what, token, e="ok"):
        line = {"lock": "n", "id": f"1.{len(self.lines)}", "what": what,
                "token": token}
        self.add(at, "fence", e="invoke", **line)
        return self if e is None else self.add(at, "fence", e=e, **line)

    def enter(self, at, token, e="ok"):
        return self.fence(at, "enter", token, e)

    def forget(self, at):
        return self.add(at, "nemesis", kind="flushall", lossy=True)

    def opinion(self, tmp_path):
        return opinion_of(self.lines, tmp_path)


def opinion_of(lines, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(  # times are whole nanoseconds
        {key: int(value) if isinstance(value, float) else value
         for key, value in line.items()}) + "\n" for line in lines))
    return second.judge(str(path))[0]


# -- the second judge alone ----------------------------------------------------


def held(until=500):
    """a has it from 10 on, and its deadline is `until` later."""
    return Story().acquire("a", 0, 10, 5, left=until)


def then(story, at=50, token=6):
    """b is granted it."""
    return story.acquire("b", 5, at, token, left=500)


def a_in_and_b():
    return then(held(40)).enter(20, 5).enter(60, 6)


def commands(second_begins):
    story = Story()
    for at, e in ((10, "begin"), (50, "alive")):
        story.add(at, "section", e=e, p="c1", lock="n", token=5, asked=0)
    return story.add(second_begins, "section", e="begin", p="c2", lock="n",
                     token=6, asked=20 * MS)


def forgotten(token=6):
    return then(held().forget(20), token=token)


def re_entered():
    return held().acquire("a", 20, 30, 5, holds=2)


def probes_at_once():
    """Each order of 40 questions is as good as another."""
    story = held(900)
    for _ in range(40):
        story.probe("a", 20, 5, 800)
        story.lines[-1].update(began=20 * MS, ended=400 * MS)
    return story


def crowd():
    """Of two dozen that wait, who came last is granted it first."""
    story = Story()
    for i in range(24):
        at, p = 30 + 20 * i, f"p{i}"
        story.acquire(p, 24 - i, at, 5 + i, left=500).enter(at + 2, 5 + i)
        story.probe(p, at + 5, 5 + i, 400).release(p, at + 8, at + 9, 5 + i)
    return story


GOOD = {
    "one after the other":
        then(held().release("a", 40, 45, 5)),
    "a lease that ended by itself":
        then(held(30)),
    "a deadline that is just over":
        then(held(40), at=50),
    "a release without an answer":
        then(held().release("a", 40, 0, 5, e=None)),
    "a release of which nothing is known":
        then(held().release("a", 40, 45, 5, e="unknown")),
    "a release that is told after the next grant":
        then(held().release("a", 40, 70, 5)),
    "a release that says that it was lost":
        then(held(30)).release("a", 80, 90, 5, e="fail", err="LOST"),
    "a release that was asked for twice":
        held().release("a", 40, 45, 5).release("a", 50, 55, 5, e="fail",
                                               err="NOT_HELD"),
    "a killed process":
        then(held().add(40, "killed", p="a")),
    "a loss that the store told, before the deadline":
        then(held().told("a", 60, 5, reason="stolen")),
    "an acquire without an answer":
        held().acquire("b", 5, 0, 0, e=None).probe("a", 90, 5, 400),
    "an acquire that failed":
        held().acquire("b", 5, 50, 6, e="fail").probe("a", 90, 5, 400),
    "a grant that was told late":
        Story().acquire("b", 5, 40, 6).acquire("a", 0, 90, 5)
        .release("b", 50, 60, 6),
    "a re-entry, and one release":
        re_entered().release("a", 40, 45, 5, holds=2).probe("a", 60, 5, 400),
    "two locks":
        Story().acquire("a", 0, 10, 5, left=500)
        .acquire("b", 5, 50, 4, left=500, lock="m"),
    "two dozen at once": crowd(),
    "a command after the other": commands(60),
    "a stale owner before the next one came in":
        then(held(40)).enter(70, 5).enter(80, 6),
    "a stale owner after it": a_in_and_b().enter(90, 5, e="fail"),
    "a write of the one who came in": a_in_and_b().fence(70, "write", 6),
    "a stale write":
        a_in_and_b().fence(70, "write", 5, e="fail"),
    "an entry without an answer that raised the mark":
        then(held(40)).enter(60, 6, e=None).enter(70, 5, e="fail"),
    "an entry without an answer that did not":
        then(held(40)).enter(60, 6, e=None).enter(70, 5),
    "two owners at a store that forgot": forgotten(),
    "a release at a store that forgot": forgotten().release("a", 70, 80, 5),
    "a reserved token that is handed on after the store forgot":
        forgotten(900).acquire("a", 60, 70, 6, caller="l1"),
}

BAD = {
    "the owner before still holds":
        (then(held(30)).probe("a", 60, 5, 0), "a/l0 was told that it holds"),
    "and by its deadline only":
        (then(held()), "a/l0 has a deadline that is later"),
    "by a microsecond":
        (then(held(40), at=49.999), "a/l0 has a deadline that is later"),
    "by its deadline, as a frozen one that learned of its loss later":
        (then(held().told("a", 700, 5, reason="paused")),
         "a/l0 has a deadline that is later"),
    "a release is told OK when the next one is in":
        (then(held(30)).release("a", 60, 70, 5), "a/l0 released token 5"),
    "a release is told OK after the loss":
        (held(30).told("a", 60, 5).release("a", 70, 80, 5),
         "a/l0 released token 5"),
    "another one's grant is released":
        (held().release("b", 40, 50, 5, grant="a.5.1"),
         "b/l0 released token 5"),
    "what nobody ever had is released":
        (held().release("b", 40, 50, 7), "b/l0 released token 0"),
    "it is released twice":
        (held().release("a", 40, 45, 5).release("a", 50, 55, 5),
         "a second time"),
    "it holds though its release was told OK":
        (held().release("a", 40, 45, 5).probe("a", 60, 5, 400),
         "a/l0 was told that it holds"),
    "it holds though its release said LOST":
        (held().release("a", 40, 45, 5, e="fail", err="LOST")
         .probe("a", 60, 5, 400), "a/l0 was told that it holds"),
    "it holds after a loss was told":
        (held(30).told("a", 60, 5).probe("a", 70, 5, 400),
         "a/l0 was told that it holds"),
    "it holds after a query said lost":
        (held(30).probe("a", 60, 5, 0, held=False, state="lost")
         .probe("a", 70, 5, 400), "a/l0 was told that it holds"),
    "a re-entry after the loss":
        (held(30).told("a", 60, 5).acquire("a", 70, 80, 5, holds=2),
         "a/l0 was granted token 5"),
    "it holds though all its holds were released":
        (re_entered().release("a", 40, 45, 5, holds=2)
         .release("a", 50, 55, 5).probe("a", 60, 5, 400),
         "a/l0 was told that it holds"),
    "a token goes back":
        (Story().acquire("a", 0, 10, 5).release("a", 20, 30, 5)
         .acquire("b", 40, 50, 4), "b/l0 was granted token 4"),
    "a token is given twice":
        (Story().acquire("a", 0, 10, 5).release("a", 20, 30, 5)
         .acquire("b", 40, 50, 5), "b/l0 was granted token 5"),
    "one of two dozen still holds":
        (crowd().probe("p3", 120, 8, 400), "p3/l0 was told that it holds"),
    "two commands at once":
        (commands(45), "c1 was told that it holds"),
    "a stale owner comes in":
        (a_in_and_b().enter(90, 5), "token 5 comes in, accepted"),
    "a stale owner writes":
        (a_in_and_b().fence(90, "write", 5), "token 5 writes, accepted"),
    "a write that is due is refused":
        (a_in_and_b().fence(90, "write", 6, e="fail"),
         "token 6 writes, refused"),
    "the owner is turned away":
        (a_in_and_b().enter(90, 6, e="fail"), "token 6 comes in, refused"),
    "a token that nobody was given":
        (a_in_and_b().enter(90, 7), "token 7 comes in, accepted"),
    "who was turned away still holds":
        (Story().acquire("a", 0, 10, 5).enter(20, 5, e="fail"),
         "token 5 comes in, refused"),
    "a token goes back at a store that forgot":
        (forgotten().acquire("b", 60, 70, 4), "b/l0 was granted token 4"),
    "a token that was nobody's reserve, at a store that forgot":
        (forgotten(900).acquire("c", 60, 70, 6), "c/l0 was granted token 6"),
    "a stale owner comes in at a store that forgot":
        (forgotten().enter(60, 6).enter(90, 5), "token 5 comes in, accepted"),
    "two owners before the store forgot":
        (then(held()).forget(600), "a/l0 has a deadline that is later"),
}


@pytest.mark.parametrize("name", GOOD)
def test_is_good(name, tmp_path):
    opinion = GOOD[name].opinion(tmp_path)
    assert opinion.ok, str(opinion)
    assert opinion.operations > 0


@pytest.mark.parametrize("name", BAD)
def test_is_found(name, tmp_path):
    story, what = BAD[name]
    opinion = story.opinion(tmp_path)
    assert opinion.word == "bad" and what in opinion.text, str(opinion)


def test_what_is_not_decided_in_time_is_not_good(tmp_path, monkeypatch):
    monkeypatch.setattr(second, "LIMIT_S", 0.2)
    opinion = then(probes_at_once(), at=500, token=4).opinion(tmp_path)
    assert opinion.word == "unknown" and not opinion.ok
    assert "not decided within 200ms" in opinion.text


def test_what_is_no_history_of_one_lock_is_an_error(tmp_path):
    for lines, what in (([], "no line of a history"),
                        (Story().acquire("a", 0, 10, 5, kind="read").lines,
                         "a lock of kind read: no model for it")):
        with pytest.raises(AssertionError, match=what):
            opinion_of(lines, tmp_path)


# -- both on recorded histories ------------------------------------------------
# recorded/STORE-FAULT.jsonl: rounds of ./dev campaign --keep, as they were.


def recorded():
    return sorted(os.listdir(RECORDED))


def both(lines, tmp_path):
    return checker.check(lines), opinion_of(lines, tmp_path)


def lines_of(name):
    return checker.read(os.path.join(RECORDED, name))


@pytest.mark.parametrize("name", recorded())
def test_a_recorded_history_is_good_by_both(name, tmp_path):
    verdict, opinion = both(lines_of(name), tmp_path)
    assert verdict.ok, str(verdict)
    assert opinion.ok, str(opinion)
    # The second one has looked at all of it.
    assert opinion.operations > verdict.counts["grants"] * 3
    assert verdict.counts["grants"] > 10


def longest(lines):
    """Of the threads' tenures the one that was certain for longest."""
    found = checker.History(lines).tenures.values()
    return max((t for t in found if t.hi and not t.stamps),
               key=lambda t: t.hi - t.lo)


def two_at_once(lines):
    """Somebody else is granted it in the middle."""
    victim = longest(lines)
    at, middle = victim.lo + 1, (victim.lo + victim.hi) // 2
    who = {"p": "x", "owner": "x/l0", "lock": victim.lock, "id": 10 ** 9}
    token = max(t.token for t in checker.History(lines).tenures.values()
                if t.lo <= middle) + 1
    return [
        {"t": at, "op": "acquire", "e": "invoke", **who},
        {"t": middle, "op": "acquire", "e": "ok", "began": at, "token": token,
         "ended": middle, "holds": 1, "grant": "x.g1", **who},
        {"t": middle, "op": "probe", "p": "x", "grant": "x.g1", "held": True,
         "began": middle, "ended": middle, "state": "held", "left_ms": 100}]


def token_back(lines):
    """The last grant has a token below the one before."""
    tenures = sorted(checker.History(lines).tenures.values(),
                     key=lambda t: t.lo)
    last, other = tenures[-1], tenures[-2]
    for line in lines:
        if line.get("token") == last.token:
            line["token"] = other.token - 1
    return []


def stale_told_held(lines):
    """Its query said lost, and later held."""
    victim = longest(lines)
    grant = next(iter(victim.grants))
    lines[:] = [line for line in lines if not (
        line["op"] == "release" and line["grant"] in victim.grants)]
    return [{"t": at, "op": "probe", "p": victim.process, "grant": grant,
             "began": at, "ended": at, "held": is_held, "left_ms": 10,
             "state": "held" if is_held else "lost"}
            for at, is_held in ((victim.hi + 1, False),
                                (victim.hi + 10 * MS, True))]


def released_by_another(lines):
    """Told OK, in the middle of it."""
    victim = longest(lines)
    at = (victim.lo + victim.hi) // 2
    who = {"p": "x", "owner": "x/l0", "lock": victim.lock, "id": 10 ** 9,
           "grant": next(iter(victim.grants))}
    return [{"t": at, "op": "release", "e": "invoke", **who},
            {"t": at + 1, "op": "release", "e": "ok", "began": at,
             "ended": at + 1, "err": "OK", **who}]


PLANTS = {two_at_once: ("mutex", "has a deadline|was told that it holds|"
                        "was told OK"),
          token_back: ("fenced", "was granted token|comes in, accepted"),
          stale_told_held: ("told", "was told that it holds"),
          released_by_another: ("owner", "x/l0 released token")}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("name", [name for name in recorded()
                                  if "flushall" not in name])
def test_what_is_planted_is_found_by_both(name, plant, tmp_path):
    lines = copy.deepcopy(lines_of(name))
    lines += plant(lines)
    verdict, opinion = both(lines, tmp_path)
    model, text = PLANTS[plant]
    assert model in {finding.model for finding in verdict.failures}
    assert opinion.word == "bad", str(opinion)
    assert any(word in opinion.text for word in text.split("|")), str(opinion)


@pytest.mark.parametrize("name", [
    "by its deadline, as a frozen one that learned of its loss later",
    "a stale owner comes in", "the owner is turned away"])
def test_what_only_the_second_one_sees(name, tmp_path):
    """A frozen one's own deadline; the record of the resource."""
    story = copy.deepcopy(BAD[name][0]).final()
    verdict, opinion = both(story.lines, tmp_path)
    assert verdict.ok and not verdict.broken, str(verdict)
    assert opinion.word == "bad"


@pytest.mark.parametrize("story, model", [
    (held(30).probe("a", 60, 5, 0, held=False, state="lost"), "told"),
    (Story().acquire("a", 0, 800, 5, limit=100), "outcomes"),
    (held().write(1, 20, 5).final(), "resource"),
], ids=["a loss that no callback told", "a limit", "a lost element"])
def test_what_only_the_first_one_sees(story, model, tmp_path):
    verdict, opinion = both(story.lines, tmp_path)
    assert model in {finding.model for finding in verdict.failures}
    assert opinion.ok, str(opinion)


# -- on real stores -----------------------------------------------------------


class Given:
    """The arguments of a campaign."""

    seconds, single, keep = 1.0, "", False


@pytest.mark.skipif(bool(campaign.missing()), reason=campaign.missing())
def test_a_round_has_two_judges():
    played = soak.Round(Given, "file", "calm", 1)
    assert played.ok, f"{played}\nhistory: {played.path}"
    assert played.opinion.operations > 10
    assert not os.path.exists(played.path)


def test_a_round_is_as_good_as_the_worse_of_its_judges():
    for good, word, ok in ((True, "good", True), (False, "good", False),
                           (True, "bad", False), (True, "unknown", False)):
        played = object.__new__(soak.Round)
        finding = checker.Finding("told", "late")
        played.verdict = checker.Verdict([] if good else [finding], {})
        played.opinion = second.Opinion(
            {"verdict": word, "text": "", "operations": 1})
        assert played.ok == ok


def test_each_bug_can_be_planted():
    done = subprocess.run([os.path.join(HERE, "plant"), "--check"], text=True,
                          stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0 and "can be planted" in done.stdout


# -- where it can't be had ----------------------------------------------------


def test_without_go_it_says_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(second.Missing, match="no Go"):
        second._find_go()


def test_an_old_go_is_said_to_be_old(monkeypatch):
    def old(*_, **__):
        return subprocess.CompletedProcess([], 0, "go version go1.18 x/y\n")

    monkeypatch.setattr(shutil, "which", lambda name: "/bin/go")
    monkeypatch.setattr(subprocess, "run", old)
    with pytest.raises(second.Missing, match=r"no Go of 1\.19 or later"):
        second._find_go()
