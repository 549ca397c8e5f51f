"""threads --replay: a list of deviations by hand."""
import os
import pathlib
import subprocess

import pytest

THREADS = pathlib.Path(os.environ["SNIB_BUILD_DIR"]) / "tests/threads/threads"
PROGRAM = "0 acquire.a release.a | 0 acquire.a release.a"


def replay(deviations, program=PROGRAM):
    return subprocess.run(
        [THREADS, "--program", program, "--replay", deviations],
        capture_output=True, text=True, timeout=120, check=False)


def test_no_deviation_is_a_schedule_too():
    done = replay("")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("nothing wrong\n")


def test_as_many_deviations_as_fit_are_taken():
    done = replay(",".join(f"{n}:0" for n in range(4000)))
    assert done.returncode == 1
    assert "this list is not one of this program: it ended" in done.stdout


def test_who_waits_may_give_up_when_time_is_over_before_the_answer_comes():
    done = replay("0:6,7:7", "far: 0 sleep5 set.l down.l |"
                  " 1 await5.l set.l down.l | 1 await5.l down.l")
    assert "7: = TIMEOUT" in done.stdout
    assert done.stdout.endswith("nothing wrong\n")


@pytest.mark.parametrize("count", [4001, 9000])
def test_more_deviations_than_fit_are_refused_in_a_sentence(count):
    done = replay(",".join(f"{n}:0" for n in range(count)))
    assert done.returncode == 64
    assert done.stderr == "threads: --replay: more than 4000 deviations\n"


def test_a_list_of_something_else_is_refused():
    done = replay("12")
    assert done.returncode == 64
    assert done.stderr == "threads: --replay CHOICE:OPTION,…\n"
