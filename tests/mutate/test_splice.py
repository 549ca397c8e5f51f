"""Many mutants in one build: each is what its number says, the others are not
there; what does not compile is left out by itself; marks tell what ran."""
import os
import signal
import subprocess

import pytest

import splice
from mutant import Edit, Mutant

TEXT = """\
#include <stdio.h>
#include <stdlib.h>
struct pair { int state; int count; };
static int twice(int a) { return a * 2; } // a comment
static void set(struct pair *p, int a, int b)
{
    p->state = 1;
    p->count = a;
    p->count = p->count * 10 + b;
}
static int sum(int n)
{
    int all = 0;
    for (int k = 0; k < n; k++) {
        if (k == 3 && n > 5) {
            break;
        }
        all += twice(k);
    }
    return all;
}
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 4;
    struct pair p = {0};
    set(&p, n, 2);
    printf("%d %d %d\\n", sum(n), p.state, p.count);
    fflush(stdout);
    return n == 99 ? abort(), 1 : 0;
}
"""


def outcome(program, mutant, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True,
                          timeout=10,
                          env={**os.environ, "MUTANT_OF_SNIB": str(mutant)})
    return done.stdout.split()


@pytest.fixture
def built(c_mutants, tmp_path):
    def build(text, mutants=None, marks=None, more=()):
        path, found = c_mutants(text)
        mutants = [*(found if mutants is None else mutants), *more]
        spliced, dropped = splice.compiled(
            text.encode(), mutants, str(path), ["-std=c11"], str(tmp_path),
            marks)
        (tmp_path / "spliced.c").write_text(spliced)
        subprocess.run(["clang", "-w", "-o", tmp_path / "spliced",
                        tmp_path / "spliced.c"], check=True)
        return tmp_path / "spliced", mutants, dropped
    return build


def by_change(mutants, change, line=None):
    found = [m for m in mutants if m.change == change
             and line in (None, m.line)]
    assert len(found) == 1, (change, [m.change for m in mutants])
    return found[0].number


def test_each_mutant_is_chosen_by_its_number(built):
    program, mutants, dropped = built(TEXT)
    assert len(mutants) > 40 and not dropped
    clean = ["12", "1", "42"]
    assert outcome(program, 0) == clean
    assert outcome(program, len(mutants) + 1) == clean
    for change, told in [
            ("a * 2 -> a / 2", ["2", "1", "42"]),
            ("p->state = 1 -> (nothing)", ["12", "0", "42"]),
            ("k < n -> k <= n", ["20", "1", "42"]),
            ("k == 3 && n > 5 -> k == 3", ["6", "1", "42"]),
            ("k == 3 && n > 5 -> true", ["0", "1", "42"]),
            ("all += twice(k) -> all -= twice(k)", ["-12", "1", "42"]),
            ("p->count = a; p->count = p->count * 10 + b -> "
             "p->count = p->count * 10 + b; p->count = a", ["12", "1", "4"]),
            ("set(&p, n, 2) -> (nothing)", ["12", "0", "0"])]:
        assert outcome(program, by_change(mutants, change)) == told, change
    assert outcome(program, by_change(mutants, "break -> (nothing)"),
                   "6") == ["30", "1", "62"]
    assert outcome(program, 0, "6") == ["6", "1", "62"]


def test_what_does_not_compile_is_dropped_and_nothing_else(built):
    at = TEXT.index("a * 2")
    bad = [Mutant("small.c", "twice", "operator", 4, "", "a * 2", new,
                  [Edit(at, at + 5, new, "value")], number)
           for number, new in ((901, "no_such_name"), (902, "(char *)a"),
                               (903, "a +"), (904, "a + 1"))]
    program, mutants, dropped = built(TEXT, more=bad)
    assert dropped == {901, 902, 903}
    assert outcome(program, 904) == ["10", "1", "42"]
    assert outcome(program, by_change(
        [m for m in mutants if m.number < 900], "a * 2 -> a / 2")) == [
            "2", "1", "42"]


def test_an_error_beside_a_change_is_one_of_that_statement(built):
    at = TEXT.index("twice(k)")  # the compiler names the line before it
    bad = Mutant("small.c", "sum", "call", 18, "", "twice(k)", "(void)0",
                 [Edit(at, at + 8, "(void)0", "value")], 905)
    _, mutants, dropped = built(TEXT, more=[bad])
    assert 905 in dropped
    assert {m.line for m in mutants if m.number in dropped} == {18}


def test_an_error_of_the_file_itself_is_no_mutants_fault(built):
    with pytest.raises(ValueError):
        built(TEXT + "int wrong(void) { return none; }\n", mutants=[])


def test_marks_tell_which_places_ran_however_the_process_ended(built,
                                                               c_mutants,
                                                               tmp_path):
    _, found = c_mutants(TEXT)
    keys = sorted({(m.edits[0].start, m.edits[0].end,
                    m.edits[0].form == "jump") for m in found})
    program, _, dropped = built(TEXT, [], {k: n for n, k in enumerate(keys)})
    assert not dropped
    stop = keys.index(next((m.edits[0].start, m.edits[0].end, True)
                           for m in found if m.rule == "jump"))
    twice = keys.index(next((m.edits[0].start, m.edits[0].end, False)
                            for m in found if m.old == "a * 2"))

    def reached(*args):
        path = tmp_path / "reach"
        path.write_bytes(bytes(len(keys)))
        done = subprocess.run([program, *args], stdout=subprocess.DEVNULL,
                              env={**os.environ, "MUTANT_REACH": str(path)})
        return done.returncode, path.read_bytes()
    status, marks = reached("4")
    assert (status, marks[twice], marks[stop]) == (0, 1, 0)
    status, marks = reached("99")
    assert (status, marks[twice], marks[stop]) == (-signal.SIGABRT, 1, 1)
    status, marks = reached("0")
    assert (status, marks[twice]) == (0, 0)


def test_places_that_overlap_in_part_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        splice.nested([splice.Place(0, 5), splice.Place(3, 8)])
