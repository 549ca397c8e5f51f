"""What ./dev test --again runs, in which order, and what it calls a failure."""

import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "test"))

import again  # noqa: E402

TESTS = [{"name": f"live.{i}", "command": ["true"]} for i in range(9)]


@pytest.mark.parametrize("words, want", [
    (["10", "--seed", "7"], (10, "7", 1, again.SUITES)),
    (["2", "--seed", "7", "--from", "2", "live"], (2, "7", 2, ["live"])),
])
def test_arguments(words, want):
    assert again.arguments(words) == want


@pytest.mark.parametrize("words", [
    [], ["0"], ["live"], ["3", "--from", "2"],
    ["3", "--seed", "7", "--from", "4"], ["3", "--seed", "7", "--from", "x"],
])
def test_arguments_that_are_refused(words, capsys):
    with pytest.raises(SystemExit) as end:
        again.arguments(words)
    assert end.value.code == 64
    assert "usage: again.py N" in capsys.readouterr().err


@pytest.mark.parametrize("count, first, alone, beside_load", [
    (10, 1, [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), (10, 4, [4, 5], [6, 7, 8, 9, 10]),
    (10, 8, [], [8, 9, 10]), (1, 1, [1], []), (3, 1, [1, 2], [3]),
])
def test_half_of_the_rounds_are_beside_load(count, first, alone, beside_load):
    assert [list(h) for h in again.halves(count, first)] == [alone, beside_load]


def order(numbers, seed):
    return [run.name for run in again.rounds_of(TESTS, numbers, seed, False)]


def test_a_round_has_an_order_of_its_own_drawn_from_the_seed():
    assert order([1, 2], "7")[9:] == order([2], "7")
    assert order([1], "7") != order([2], "7") != order([2], "8")
    assert sorted(order([1], "7")) == [t["name"] for t in TESTS]


@pytest.mark.parametrize("code, out, want", [
    (0, "FAILED x", []), (77, "", []), (3, "", ["live.0: exit 3"]),
    (1, "FAILED t::a\n[  FAILED  ] b\n[  FAILED  ] 1 test(s)\nFAILED t::a\n",
     ["live.0: t::a", "live.0: b"]),
])
def test_what_is_called_a_failure(code, out, want):
    test = dict(TESTS[0],
                properties=[{"name": "SKIP_RETURN_CODE", "value": 77}])
    run = again.Run(test, 4, True)
    run.code, run.out = code, out
    assert run.failures() == [f"FAILED round 4 (beside load): {w}" for w in want]


def test_the_end_of_a_round_is_told_once(capsys):
    total = again.Sum(2)
    for i in (0, 1):
        run = again.Run(TESTS[i], 3, False)
        run.code = 0
        total.tell(run)
    assert capsys.readouterr().out.startswith("round 3 has ended, after 0 s")
    assert total.passed == 2
