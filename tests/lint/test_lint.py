"""Each rule of tools/lint fails on a tree with one planted mistake, and is
content with the same tree without it."""

import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "lint"))

import lint  # noqa: E402
import told  # noqa: E402
from tree import Skip, Tree, code_of  # noqa: E402

# A small tree in which every rule is content.
SOUND = {
    ".clang-format": "BasedOnStyle: LLVM\nIndentWidth: 4\n",
    "include/snib.h": "#ifndef SNIB_H\n#define SNIB_H\n#include <stdint.h>\n"
                      "typedef int32_t snib_err;\n#endif\n",
    "src/base/mem.h": "#ifndef MEM_H\n#define MEM_H\n#include <stddef.h>\n"
                      "void *snib__alloc(size_t);\n#endif\n",
    "src/base/mem.c": '#include "base/mem.h"\n#include <stdlib.h>\n'
                      "void *snib__alloc(size_t n) { return malloc(n); }\n",
    "src/core/a.h": "#ifndef A_H\n#define A_H\n"
                    '#include "base/mem.h"\n#endif\n',
    "src/core/a.c": '#include "core/a.h"\n#include "snib.h"\n'
                    "int snib__a(void);\nint snib__a(void) { return 0; }\n",
    "src/core/a_i.h": "#ifndef A_I_H\n#define A_I_H\nint a(void);\n#endif\n",
    "src/api/r.h": "#ifndef R_H\n#define R_H\nint r(void);\n#endif\n",
    "src/store/store.h": "#ifndef STORE_H\n#define STORE_H\n"
                         '#include "core/a.h"\n#endif\n',
    "src/cli/main.c": '#include "snib.h"\n#include <stdio.h>\n'
                      'int main(void) { return puts("x") < 0; }\n',
    "docs/man/snib.1": '.Dd January 1, 2026\n.Dt SNIB 1\n.Os\n.Sh NAME\n'
                       ".Nm snib\n.Nd lock\n.Sh DESCRIPTION\nText.\n",
    "docs/ARCHITECTURE.md": "`core/a.c:snib__a` calls `base/mem.c`'s "
                            "`snib__alloc`; `a_…` are its own.\n",
    "run.sh": '#!/bin/sh\nexec echo "$1"\n',
    "tests/cli/test_run.py": "from shared import *\n\n\n"
                             "def test_x():\n    assert 1\n",
    "tests/cli/shared.py": "def test_z():\n    assert 1\n",
    "tests/unit/test_a.c": "static void\na_case(void **state)\n{\n"
                           "    (void)state;\n}\n"
                           "int main(void) { a_case(0); return 0; }\n",
    "tests/skips.tsv": "cli.run\ttest_x[a]\tno root\tas a plain user\n",
    "tests/findings.tsv": "# a line a test\ncli.run\ttest_x[a]\twas wrong\n"
                          "cli.run\ttest_z\twas wrong\n",
}

# rule, file, its text (appended to the sound one), a word of the finding.
UNFINISHED = "TO" "DO"
MACHINE = "/wo" "rk/main/x"
PLANTED = [
    ("arrows", "src/base/b.c", '#include "core/a.h"\n', "base may not"),
    ("arrows", "src/base/b.c", '  #  include "core/a.h"\n', "base may not"),
    ("arrows", "src/proto/b.c", '#include "core/a.h"\n', "proto may not"),
    ("arrows", "src/core/b.c", '#include "store/store.h"\n', "core may not"),
    ("arrows", "src/net/b.c", '#include "core/a.h"\n', "net may not"),
    ("arrows", "src/store/redis/b.c", '#include "../../api/r.h"\n',
     "store may not"),
    ("arrows", "src/driver/b.c", '#include "api/r.h"\n', "driver may not"),
    ("arrows", "src/api/b.c", '#include "core/a_i.h"\n', "its own folder"),
    ("arrows", "src/cli/b.c", '#include "base/mem.h"\n', "cli may not"),
    ("arrows", "src/core/b.c", "#include <sys/socket.h>\n", "sans-I/O"),
    ("arrows", "src/core/b.c", "#include <pthread.h>\n", "sans-I/O"),
    ("arrows", "src/proto/b.c", "#include <poll.h>\n", "sans-I/O"),
    ("arrows", "src/store/redis/b.c", "#include <time.h>\n", "sans-I/O"),
    ("arrows", "src/core/b.c", "#include <hiredis/read.h>\n", "belongs"),
    ("arrows", "src/core/b.c", "#include <libpq-fe.h>\n", "belongs"),
    ("arrows", "src/core/b.c", '#include "core/none.h"\n', "not in the tree"),
    ("arrows", "src/extra/b.c", "int x;\n", "not in the architecture"),
    ("arrows", "include/snib/x.h", "#include <pthread.h>\n", "pthread.h"),
    ("arrows", "include/snib/x.h", '#include "steps/step.h"\n', "step.h"),
    ("arrows", "include/snib/steps/libpq.h", "#include <mysql.h>\n",
     "mysql.h"),
    ("cycles", "src/base/mem.h", '#include "core/a.h"\n', "cycle"),
    ("cycles", "src/base/self.h", '#include "base/self.h"\n', "cycle"),
    ("banned", "src/cli/b.c", "void f(char *a) { strcpy(a, a); }\n", "strcpy"),
    ("banned", "tests/b.c", "void f(char *a) { sprintf (a, a); }\n",
     "sprintf"),
    ("banned", "src/core/b.c", "void f(char *a) { strcat(a, a); }\n",
     "strcat"),
    ("banned", "sim/b.c", "void f(char *a) { gets(a); }\n", "gets"),
    ("allocation", "src/core/b.c", "void f(void *p) { free(p); }\n", "free"),
    ("guest", "src/api/b.c", 'void f(void) { printf("x"); }\n', "printf"),
    ("guest", "src/net/b.c", "void f(void) { signal(1, 0); }\n", "signal"),
    ("unfinished", "src/core/b.c", f"/* {UNFINISHED}: x */\n", UNFINISHED),
    ("unfinished", "docs/x.md", f"{UNFINISHED}\n", UNFINISHED),
    ("architecture", "docs/ARCHITECTURE.md", "`core/b.c` does it.\n",
     "there is no core/b.c"),
    ("architecture", "docs/ARCHITECTURE.md", "`core/a.c:snib__b` does it.\n",
     "core/a.c has no snib__b"),
    ("architecture", "docs/ARCHITECTURE.md", "`a_sends` adds one.\n",
     "nothing is called a_sends"),
    ("replaced", "src/core/b.c", "/* Their seats. */\n", "acquisition"),
    ("replaced", "include/snib/x.h", "int snib_lane_new(void);\n", "owner"),
    ("machine", "docs/x.md", f"see {MACHINE}\n", "docs/x.md:1"),
    ("headers", "src/core/b.h", "#ifndef B_H\n#define B_H\n"
     "size_t snib__n(void);\n#endif\n", "compile alone"),
    ("headers", "src/core/b.h", "struct twice { int x; };\n", "compile alone"),
    ("headers", "include/snib/x.h", "#ifndef X_H\n#define X_H\n"
     "#include <stddef.h>\n"
     "static inline char *snib_x(void *p) { return p; }\n#endif\n",
     "compile alone"),
    ("formatting", "src/core/b.c", "int  x ;\n", "not formatted"),
    ("formatting", "tests/b.h", "int x;   \n", "not formatted"),
    ("formatting", "include/b.hpp", "int  x;\n", "not formatted"),
    ("cppcheck", "src/core/b.c",
     "int snib__b(int i);\nint snib__b(int i)\n{\n    int a[2] = {0, 0};\n"
     "    return i < 5 ? a[i + 2] + a[5] : 0;\n}\n", "arrayIndex"),
    ("tidy", "src/core/b.c",
     "int snib__b(int i);\nint snib__b(int i)\n{\n"
     "    if (i > 0);\n    {\n        i++;\n    }\n    return i;\n}\n",
     "suspicious-semicolon"),
    ("manual", "docs/man/snib.1", ".Sh\n.Xy unknown\n", "snib.1"),
    ("shell", "run.sh", "rm -rf $1/*\n", "run.sh"),
    ("calls", "tools/lint/limits.tsv", "calls\tsrc\t9\n", "lower its limit"),
    ("skips", "tests/skips.tsv", "cli.run\ttest_y\tw\talways\n", "no test"),
    ("skips", "tests/skips.tsv", "*\ttest_x\tw\tas a user\n", "too little"),
    ("skips", "tests/skips.tsv", "cli.run\t*\tw\talways\n", "too little"),
    ("skips", "tests/skips.tsv", "cli.run\ttest_x\tw\n", "fields"),
    ("findings", "tests/findings.tsv", "cli.run\ttest_y\tz\n", "no test"),
    ("findings", "tests/findings.tsv", "cli.none\t-\tz\n", "no test"),
    ("findings", "tests/findings.tsv", "cli.run test_x z\n", "fields"),
    ("findings", "tests/findings.tsv", "cli.run\ttest_x[a]\tz\n", "second"),
    ("told", "tests/told.tsv", "snib_x\tOK\tcli.run\ttest_x\n", "may end in"),
    ("told", "tests/told.tsv", "snib_x\tOK\tcli.run\ttest_y\n", "no test"),
    ("told", "tests/told.tsv", "snib_x\tOK\tcli.run\n", "fields"),
    ("told", "tests/told.tsv", "".join(
        f"snib_x\t{i}\topen\t-\n" for i in range(told.OPEN_MOST + 1)),
     "without a test"),
    ("told", "docs/PROOF.md", "<!-- told: begin -->\n<!-- told: end -->\n",
     "not current"),
    ("told", "include/snib/x.h", "\nSNIB_API int snib_x(void);\n",
     "not called"),
    ("told", "include/snib/x.h", "\nSNIB_API snib_err snib_x(void);\n",
     "does not list"),
    ("blocks", "tests/blocks.tsv", "snib_y\tnever\t-\n", "no public"),
    ("blocks", "tests/blocks.tsv", "snib_y\tnever\n", "fields"),
    ("cases", "tests/unit/test_b.c",
     "static void b_case(void **state);\nstatic void\nb_case(void **state)\n"
     "{\n    (void)state; /* b_case */\n}\n", "b_case is never run"),
    ("cases", "tests/conformance/b.c",
     "static void b_case(void **state)\n{\n    (void)state;\n}\n", "b_case"),
]


def tree_of(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return Tree(folder)


def findings(rule, tree):
    try:
        return list(lint.RULES[rule](tree))
    except Skip as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("rule", lint.RULES)
def test_rule_is_content_with_a_sound_tree(rule, tmp_path):
    if rule == "formatting":
        files = {".clang-format": SOUND[".clang-format"],
                 "src/core/b.c": "int x;\n"}
    else:
        files = SOUND
    assert findings(rule, tree_of(tmp_path, files)) == []


@pytest.mark.parametrize(
    "rule,name,text,word", PLANTED,
    ids=[f"{p[0]}-{p[1]}-{i}" for i, p in enumerate(PLANTED)])
def test_rule_finds_the_planted_mistake(rule, name, text, word, tmp_path):
    files = dict(SOUND)
    files[name] = files.get(name, "") + text
    found = findings(rule, tree_of(tmp_path, files))
    assert any(word in line and name in line for line in found), found


def test_a_case_of_a_shared_header_is_one_of_the_program(tmp_path):
    files = dict(SOUND)
    files["tests/unit/h.h"] = "static void h_case(void **state);\n"
    files["tests/unit/test_h.c"] = (
        '#include "h.h"\nconst struct CMUnitTest cases[] = {\n'
        "    CASE(h_case),\n};\n")
    files["tests/findings.tsv"] += "unit.h\th_case\twas wrong\n"
    assert findings("findings", tree_of(tmp_path, files)) == []
    files["tests/findings.tsv"] += "unit.h\th_cas\twas wrong\n"
    assert findings("findings", tree_of(tmp_path, files)) != []


X = ("/* x. */\nSNIB_API void snib_x(void);\n\n/* It blocks. */\n"
     "SNIB_API void snib_wait(void);\n\n/* Started. */\n"
     "SNIB_API void snib_wait_start(void);\n")
GOOD = {"snib_x": "never\t-", "snib_wait": "store\tsnib_wait_start",
        "snib_wait_start": "never\t-"}


@pytest.mark.parametrize("change,word", [
    ({}, None),
    ({"snib_x": None}, "may snib_x wait"),
    ({"snib_x": "maybe\t-"}, "expected one of"),
    ({"snib_x": "never\tsnib_x_start"}, "never waits"),
    ({"snib_x": "store\tsnib_x_start"}, "not the one"),
    ({"snib_x": "store\tsomething"}, "no reason"),
    ({"snib_wait": "never\t-"}, "says that it blocks"),
    ({"snib_wait": "store\tit has none"}, "not the one"),
])
def test_who_waits_has_a_started_form(change, word, tmp_path):
    rows = {**GOOD, **change}
    table = "".join(f"{f}\t{r}\n" for f, r in rows.items() if r)
    found = findings("blocks", tree_of(
        tmp_path, {"include/snib/x.h": X, "tests/blocks.tsv": table}))
    if word:
        assert any(word in line for line in found), found
    else:
        assert found == []


def test_every_rule_has_a_planted_mistake():
    assert {p[0] for p in PLANTED} == set(lint.RULES)


def test_the_stores_of_this_host_may_use_its_facilities(tmp_path):
    files = dict(SOUND)
    for store in ("file", "memory"):
        files[f"src/store/{store}/b.c"] = (
            '#include <pthread.h>\n#include <time.h>\n#include "core/a.h"\n')
    files["src/store/postgres/c.c"] = "#include <libpq-fe.h>\n"
    assert findings("arrows", tree_of(tmp_path, files)) == []


def test_a_circle_of_calls_has_two_files_at_most(tmp_path):
    def call(name, other):
        return (f'#include "core/a.h"\nvoid snib__{name}(int n);\n'
                f"void snib__{other}(int n);\nstatic void step(int n)\n"
                f"{{\n    snib__{other}(n - 1);\n}}\nvoid snib__{name}(int n)\n"
                f"{{\n    step(n);\n}}\n")

    two = dict(SOUND, **{"src/core/b.c": call("b", "c"),
                         "src/core/c.c": call("c", "b")})
    assert findings("calls", tree_of(tmp_path / "two", two)) == []
    three = dict(SOUND, **{"src/core/b.c": call("b", "c"),
                           "src/core/c.c": call("c", "d"),
                           "src/core/d.c": call("d", "b")})
    found = findings("calls", tree_of(tmp_path / "three", three))
    assert len(found) == 1 and all(
        f"src/core/{name}.c" in found[0] for name in "bcd"), found


def test_a_folder_calls_none_above_it(tmp_path):
    up = "void snib__c(void);\nvoid snib__b(void);\nvoid snib__b(void)\n" \
         "{\n    snib__c();\n}\n"
    top = "void snib__c(void);\nvoid snib__c(void)\n{\n}\n"

    def found(lower, upper):
        return findings("calls", tree_of(tmp_path / lower, dict(
            SOUND, **{f"src/{lower}/b.c": up, f"src/{upper}/c.c": top})))

    said = found("driver", "api")
    assert len(said) == 1 and "src/driver/b.c" in said[0], said
    assert found("cli", "api") == [] and found("api", "driver") == []


def test_what_a_header_calls_its_caller_calls(tmp_path):
    files = dict(SOUND, **{
        "src/core/i.h": "#ifndef I_H\n#define I_H\nvoid snib__d(int n);\n"
                        "static inline void snib__i(int n)\n{\n"
                        "    snib__d(n);\n}\n#endif\n",
        "src/core/b.c": '#include "core/i.h"\nvoid snib__b(int n);\n'
                        "void snib__b(int n)\n{\n    snib__i(n);\n}\n",
        "src/core/c.c": "void snib__b(int n);\nvoid snib__c(int n);\n"
                        "void snib__c(int n)\n{\n    snib__b(n);\n}\n",
        "src/core/d.c": "void snib__c(int n);\nvoid snib__d(int n);\n"
                        "void snib__d(int n)\n{\n    snib__c(n);\n}\n"})
    found = findings("calls", tree_of(tmp_path, files))
    assert len(found) == 1 and "src/core/d.c" in found[0], found


def test_comments_and_strings_are_no_code():
    text = ('/* strcpy(a) */ x("sprintf(\\"b\\")"); // gets(c)\n'
            "c = '\"'; strcat(d);\n")
    code = code_of(text)
    assert "strcat(d)" in code
    for word in ("strcpy", "sprintf", "gets"):
        assert word not in code
    assert code.count("\n") == text.count("\n")


def test_commented_out_includes_do_not_count(tmp_path):
    files = dict(SOUND)
    files["src/base/b.c"] = '/*\n#include "core/a.h"\n*/\n'
    assert findings("arrows", tree_of(tmp_path, files)) == []
