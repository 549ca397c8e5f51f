"""Which tests are asked, in which order, and when a failure counts."""
import types

import pytest

from judge import Judge
from mutant import Edit, Mutant
from suites import Unit

MUTANT = Mutant("src/core/a.c", "f", "operator", 3, "a + b", "a + b", "a - b",
                [Edit(0, 5, "a - b", "value")], 7)


class Agent:
    """Answers for a test from a list; the last answer stays."""

    def __init__(self, answers):
        self.answers = {k: list(v) for k, v in answers.items()}
        self.asked = []

    def run(self, job):
        name = job["argv"][0] if "argv" in job else job["cwd"]
        which = name, int(job["env"]["MUTANT_OF_SNIB"]) > 0
        self.asked.append(which)
        left = self.answers.get(which, [0])
        status = left.pop(0) if len(left) > 1 else left[0]
        late = status == "late"
        status = -9 if late else status
        return {"status": status, "timed_out": late, "seconds": 0.1,
                "results": {} if status == 0 else {
                    "test_x.py::" + name: ["failed", 0, "assert"]}}


def program(name, seconds=0.1):
    unit = Unit(name, {}, "/", "", argv=[name])
    unit.seconds = seconds
    return unit


def case(name, seconds=0.1):
    unit = Unit(name, {}, name, f"tests/{name}/test_x.py",
                nodes=["test_x.py::" + name])
    unit.seconds, unit.path = seconds, unit.source
    return unit


@pytest.fixture
def judged():
    def judge(units, answers, budget=40):
        cover = types.SimpleNamespace(
            tests_of=lambda key, path, function: [u.name for u in units])
        one = Judge(cover, {u.name: u for u in units}, None,
                    types.SimpleNamespace(budget=budget), print)
        agent = Agent(answers)
        return one(MUTANT, "key", agent, "log"), agent, one
    return judge


def test_a_failure_that_stays_and_goes_with_the_mutant_is_a_kill(judged):
    verdict, agent, _ = judged([program("a")], {("a", True): [1]})
    assert (verdict["verdict"], verdict["by"]) == ("killed", "a")
    assert agent.asked == [("a", True), ("a", True), ("a", False)]


def test_a_failure_that_does_not_come_again_is_none(judged):
    verdict, _, judge = judged([program("a")], {("a", True): [1, 0]})
    assert verdict["verdict"] == "survived" and judge.unsure == {"a": 1}


def test_what_takes_too_long_again_is_timed_out(judged):
    verdict, agent, _ = judged([program("a")], {("a", True): ["late"]})
    assert (verdict["verdict"], verdict["by"]) == ("timed out", "a")
    assert agent.asked == [("a", True), ("a", True), ("a", False)]


def test_what_took_too_long_but_once_is_no_kill(judged):
    verdict, _, judge = judged([program("a")], {("a", True): ["late", 0]})
    assert verdict["verdict"] == "survived" and judge.unsure == {"a": 1}


def test_a_failure_without_the_mutant_is_none_and_the_next_is_asked(judged):
    verdict, _, judge = judged(
        [case("a"), case("b"), program("c", 5)],
        {("a", True): [1], ("a", False): [1], ("c", True): [1]})
    assert (verdict["verdict"], verdict["by"]) == ("killed", "c")
    assert list(judge.unsure) == ["a test_x.py::a"]


def test_skipped_is_no_kill(judged):
    verdict, _, _ = judged([program("a")], {("a", True): [77]})
    assert verdict["verdict"] == "survived"


def test_nothing_that_reaches_it_is_not_covered(judged):
    verdict, agent, _ = judged([], {})
    assert verdict["verdict"] == "not covered" and not agent.asked


def test_fast_programs_then_cases_then_long_programs(judged):
    _, agent, _ = judged([case("late"), program("long", 9), program("b", 2),
                          program("a", 1)], {})
    assert [name for name, _ in agent.asked] == ["a", "b", "late", "long"]


def test_cases_beyond_the_budget_are_counted(judged):
    verdict, agent, _ = judged([case("a", 9), case("b", 8), case("c", 30)],
                               {}, budget=20)
    assert (verdict["tests"], verdict["left"]) == (2, 1)
    assert {name for name, _ in agent.asked} == {"a", "b"}


def test_what_killed_in_this_file_before_comes_first(judged):
    units = [program("a", 1), program("b", 2)]
    _, _, judge = judged(units, {("b", True): [1]})
    agent = Agent({("b", True): [1]})
    judge(MUTANT, "key", agent, "log")
    assert agent.asked[0] == ("b", True)
