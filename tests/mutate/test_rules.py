"""Each rule on a few lines of C, or of Lua."""
import pytest

import mutant
import rules_lua

HEAD = """\
enum err { SNIB_ERR_OK, SNIB_ERR_BUSY, SNIB_ERR_LOST };
enum { LIMIT = 8 };
#define MOST 5
enum state { IDLE, HELD };
struct thing { enum state state; int count; struct thing *next; };
void pthread_mutex_lock(int *); void pthread_mutex_unlock(int *);
void tell(int, int); int ask(struct thing *); void snib__free(void *);
#define assert(x) ((x) ? (void)0 : tell(0, 1))
"""
CASES = [
    ("operator", "int f(int a, int b) { return a + b; }", {"a + b -> a - b"}),
    ("operator", "int f(int a, int b) { return a < b; }", {"a < b -> a <= b"}),
    ("operator", "int f(int a, int b) { return a == b; }",
     {"a == b -> a != b"}),
    ("operator", "int f(int a, int b) { return a && b; }",
     {"a && b -> a || b"}),
    ("operator", "int f(int a) { return !a; }", {"!a -> a"}),
    ("operator", "int f(int a) { return -a; }", {"-a -> a"}),
    ("operator", "void f(int *a) { (*a)++; *a += 2; }",
     {"(*a)++ -> (*a)--", "*a += 2 -> *a -= 2"}),
    ("operator", "char f(char **a) { return *(*a)++; }",
     {"(*a)++ -> (*a)--"}),
    ("constant", "int f(void) { return 7; }", {"7 -> 8", "7 -> 6"}),
    ("constant", "int f(void) { return 0; }", {"0 -> 1"}),
    ("constant", "long f(void) { return 0x10L; }",
     {"0x10L -> 17L", "0x10L -> 15L"}),
    ("constant", "int f(void) { return LIMIT; }",
     {"LIMIT -> (LIMIT + 1)", "LIMIT -> (LIMIT - 1)"}),
    ("constant", "int f(void) { return MOST; }",
     {"MOST -> (MOST + 1)", "MOST -> (MOST - 1)"}),
    ("condition", "void f(int a) { if (a) { tell(a, 1); } }",
     {"a -> !(a)", "a -> true", "a -> false"}),
    ("condition", "void f(int a) { while (a) { tell(a, 1); } }",
     {"a -> !(a)", "a -> false"}),
    ("condition", "void f(int a) { for (; a;) { tell(a, 1); } }",
     {"a -> !(a)", "a -> false"}),
    ("condition", "void f(int a, int b) { tell(a && b, 1); }",
     {"a && b -> a", "a && b -> b"}),
    ("call", "void f(struct thing *t) { tell(1, 2); (void)ask(t); }",
     {"tell(1, 2) -> (nothing)", "(void)ask(t) -> (nothing)"}),
    ("call", "void f(struct thing *t) { snib__free(t); assert(t); }", set()),
    ("lock", "void f(int *m) { pthread_mutex_lock(m); "
     "pthread_mutex_unlock(m); }",
     {"pthread_mutex_lock(m) -> (nothing)",
      "pthread_mutex_unlock(m) -> (nothing)"}),
    ("transition", "void f(struct thing *t) { t->state = HELD; "
     "t->count = 1; }", {"t->state = HELD -> (nothing)"}),
    ("assignment", "void f(struct thing *t) { t->state = HELD; "
     "t->count = 1; }", {"t->count = 1 -> (nothing)"}),
    ("code", "enum err f(void) { return SNIB_ERR_BUSY; }",
     {"SNIB_ERR_BUSY -> SNIB_ERR_LOST", "SNIB_ERR_BUSY -> SNIB_ERR_OK"}),
    ("code", "enum state f(void) { return HELD; }", {"HELD -> IDLE"}),
    ("return", "enum err f(enum err e) { return e; }", {"e -> 0"}),
    ("return", "struct thing *f(struct thing *t) { return t->next; }",
     {"t->next -> NULL"}),
    ("return", "_Bool f(int a) { return a > 3; }", {"a > 3 -> !(a > 3)"}),
    ("jump", "void f(int a) { while (a) { if (a) { break; } } return; }",
     {"break -> (nothing)", "return -> (nothing)"}),
    ("exchange", "void f(struct thing *t) { t->count = 1; ask(t); }",
     {"t->count = 1; ask(t) -> ask(t); t->count = 1"}),
    ("exchange", "void f(struct thing *t) { t->count = 1; t->next = 0; }",
     set()),
    ("exchange", "void f(struct thing *t) { snib__free(t->next); "
     "snib__free(t); }", set()),
    ("argument", "void f(int a, int b) { tell(a, b); }",
     {"a -> b", "b -> a"}),
    ("argument", "void f(int a, struct thing *b) { tell(a, ask(b)); }",
     set()),
]


@pytest.mark.parametrize("rule, text, changes", CASES)
def test_rule_of_c(c_mutants, rule, text, changes):
    _, found = c_mutants(HEAD + text + "\n")
    assert {m.change for m in found if m.rule == rule} == changes
    assert {m.function for m in found} <= {"f"}
    assert {m.line for m in found} <= {HEAD.count("\n") + 1}


@pytest.mark.parametrize("text", [
    "static const int table[] = {1, 2, 3};",
    "int f(int a) { switch (a) { case 3: break; } char b[12]; "
    "return sizeof(b[1]); }",
    "int f(void) { static int kept = 4; return kept; }",
    "_Static_assert(1 + 1 == 2, \"\");",
    "int f(int a) { assert(a == 1); return a; }",
])
def test_what_cannot_be_chosen_while_it_runs_is_no_place(c_mutants, text):
    _, found = c_mutants(HEAD + text + "\n")
    assert {m.rule for m in found} <= {"jump", "return"}


def test_a_file_that_does_not_compile_is_an_error(c_mutants):
    with pytest.raises(ValueError, match="small.c does not compile"):
        c_mutants("int f(void) { return there_is_none; }\n")


SCRIPT = """\
-- not 1 here
local a, b = tonumber(ARGV[1]),
    tonumber(ARGV[2])
local function extend(key, given)
    if a == 4 and not given then
        redis.call('DEL', key, given)
        mark = a - 1
    end
    return true
end
"""


@pytest.mark.parametrize("rule, changes", [
    ("operator", {"== -> ~=", "and -> or", "not -> (nothing)", "- -> +"}),
    ("constant", {"1 -> 2", "1 -> 0", "2 -> 3", "2 -> 1", "4 -> 5", "4 -> 3",
                  "true -> false"}),
    ("condition", {"a == 4 and not given -> not (a == 4 and not given)",
                   "a == 4 and not given -> true",
                   "a == 4 and not given -> false"}),
    ("call", {"redis.call('DEL', key, given) -> (nothing)"}),
    ("assignment", {"mark = a - 1 -> (nothing)"}),
    ("exchange", set()),
    ("argument", {"key -> given", "given -> key"}),
])
def test_rule_of_lua(rule, changes):
    found = rules_lua.mutants_of("x.lua", SCRIPT.encode())
    mine = {m.change for m in found if m.rule == rule and not (
        rule == "argument" and m.line == 4)}
    assert mine == changes
    for m in found:
        assert m.edits[0].form == "text" and m.line > 1


def test_a_change_of_lua_is_that_change_and_nothing_else():
    found = rules_lua.mutants_of("x.lua", SCRIPT.encode())
    call = next(m for m in found if m.rule == "call")
    assert mutant.patched(SCRIPT.encode(), call).decode() == SCRIPT.replace(
        "redis.call('DEL', key, given)", "")
