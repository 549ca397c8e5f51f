"""Many mutants in one file, each chosen at run time by its number.

Where the expression E has the mutants 7 (E1) and 9 (E2), the file gets

    (mutant_now == 7 ? (E1) : mutant_now == 9 ? (E2) : (E))

and within the last E, and only there, the places inside are treated alike:
when a mutant is chosen, no other is. Each part stands on lines of its own, so
that a compiler's complaint names the mutant that does not compile.

For the map of what a test reaches, each place is marked instead:

    (mutant_reach(12), E)"""
import os
import re
import subprocess

from mutant import FORMS

CHOOSE = """\
/* Which mutant this process is: MUTANT_OF_SNIB=NUMBER. */
#ifndef MUTANT_OF_SNIB
#define MUTANT_OF_SNIB
extern char *getenv(const char *);
__attribute__((weak, visibility("hidden"))) int mutant_now;
__attribute__((weak, visibility("hidden"), constructor)) void
mutant_choose(void)
{
    const char *s = getenv("MUTANT_OF_SNIB");
    for (mutant_now = 0; s && *s >= '0' && *s <= '9'; s++) {
        mutant_now = mutant_now * 10 + (*s - '0');
    }
}
#endif
"""
REACH = """\
/* Which places this process reaches: a byte each in the file MUTANT_REACH,
 * shared by all processes of a test, whichever way they end. */
#ifndef MUTANT_REACH
#define MUTANT_REACH
/* No headers: a file may have words of its own that they have, too. */
extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern long lseek(int, long, int);
extern void *mmap(void *, unsigned long, int, int, int, long);
__attribute__((weak, visibility("hidden"))) unsigned char *mutant_reached;
#define mutant_reach(n)                                                  \\
    ((void)(mutant_reached && !mutant_reached[n] && (mutant_reached[n] = 1)))
__attribute__((weak, visibility("hidden"), constructor)) void
mutant_reach_open(void)
{
    const char *path = getenv("MUTANT_REACH");
    if (mutant_reached || !path) {
        return;
    }
    int fd = open(path, 02000002); /* O_RDWR | O_CLOEXEC */
    long size = fd < 0 ? -1 : lseek(fd, 0, 2);
    if (size > 0) {
        void *p = mmap((void *)0, (unsigned long)size, 3, 1, fd, 0);
        if (p != (void *)-1) {
            mutant_reached = p;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}
#endif
"""
# What a careless edit would not get past a compiler's default settings.
STRICT = ["-Wno-everything", "-Werror=incompatible-pointer-types",
          "-Werror=int-conversion", "-Werror=return-type",
          "-Werror=conditional-type-mismatch", "-Werror=pointer-type-mismatch",
          "-ferror-limit=0"]


class Place:
    """A range of the file, with the changes that begin there."""

    def __init__(self, start, end):
        self.start, self.end = start, end
        self.form, self.changes, self.inside = "value", [], []

    def add(self, form, number, new):
        if FORMS.index(form) > FORMS.index(self.form):
            self.form = form
        self.changes.append((number, new))


def nested(places):
    """The outermost places, with the others inside; no partial overlap."""
    top, open_ = [], []
    for place in sorted(places, key=lambda p: (p.start, -p.end)):
        place.inside = []
        while open_ and open_[-1].end <= place.start:
            open_.pop()
        if open_ and place.end > open_[-1].end:
            raise ValueError("places overlap")
        (open_[-1].inside if open_ else top).append(place)
        open_.append(place)
    return top


class Writer:
    """The new text, and whose each of its lines is."""

    def __init__(self, source, prelude, marks):
        self.source, self.marks = source, marks
        self.parts, self.line, self.owners = [prelude], 1, {}
        self.line += prelude.count("\n")

    def put(self, text, owner=None):
        """owner: (place, number or None); a part ends its line."""
        text = text if text.endswith("\n") else text + "\n"
        for n in range(text.count("\n")):
            self.owners[self.line + n] = owner
        self.line += text.count("\n")
        self.parts.append(text)

    def raw(self, start, end, inside, owner):
        at = start
        for place in inside:
            if place.start > at:
                self.put(self.source[at:place.start].decode(), owner)
            self.place(place)
            at = place.end
        if end > at:
            self.put(self.source[at:end].decode(), owner)

    def place(self, place):
        here = place, None
        if self.marks:
            number = place.changes[0][0]
            jump = place.form == "jump"
            self.put(f"{{ mutant_reach({number});" if jump else
                     f"(mutant_reach({number}), (", here)
            self.raw(place.start, place.end, place.inside, here)
            self.put("; }" if jump else "))", here)
            return
        if place.form == "jump":
            self.put("{ if (" + " && ".join(
                f"mutant_now != {n}" for n, _ in place.changes) + ")", here)
            self.raw(place.start, place.end, place.inside, here)
            self.put("; }", here)
            return
        cast = {"void": "(void)", "truth": "!!", "value": ""}[place.form]
        self.put("(", here)
        for number, new in place.changes:
            self.put(f"mutant_now == {number} ? {cast}(\n{new or '0'}\n) :",
                     (place, number))
        self.put(f"{cast}(", here)
        self.raw(place.start, place.end, place.inside, here)
        self.put("))", here)


def spliced(source, mutants, marks=None):
    """(text, owners): with the mutants; or, given marks {(start, end, jump):
    number}, with those."""
    places = {}
    if marks is not None:
        for (start, end, jump), number in marks.items():
            place = places[start, end] = Place(start, end)
            place.add("jump" if jump else "value", number, "")
    for mutant in mutants:
        for edit in mutant.edits:
            place = places.setdefault((edit.start, edit.end),
                                      Place(edit.start, edit.end))
            place.add(edit.form, mutant.number, edit.new)
    writer = Writer(source, REACH if marks is not None else CHOOSE,
                    marks is not None)
    writer.raw(0, len(source), nested(places.values()), None)
    return "".join(writer.parts), writer.owners


def complaints(text, name, arguments, scratch):
    """The lines of errors when this text is compiled in the place of name."""
    path = os.path.join(scratch, f"check-{os.getpid()}-"
                        + name.replace("/", "_"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run(
        ["clang", "-fsyntax-only", "-fno-caret-diagnostics", "-x", "c",
         *arguments, *STRICT, "-I", os.path.dirname(name), path],
        capture_output=True, text=True)
    os.unlink(path)
    lines = [int(n) for n in re.findall(
        "^" + re.escape(path) + r":(\d+):\d+: (?:fatal )?error", done.stderr,
        re.M)]
    if done.returncode and not lines:
        raise ValueError(f"{name}: {done.stderr[:2000]}")
    return lines


def to_drop(lines, owners):
    """Of each place the last change that is complained about: those before
    it may only have to do with its type. If there is none, the place cannot
    be one: all its changes."""
    last, whole = {}, set()
    for line in sorted(lines):
        if owners.get(line):
            place, number = owners[line]
            if number is None:
                whole |= {n for n, _ in place.changes}
            else:
                last[place] = number
    return set(last.values()) or whole


def compiled(source, mutants, name, arguments, scratch, marks=None):
    """The spliced text without what does not compile, and what was dropped:
    numbers of mutants, or of marks. Every round drops at least one."""
    mutants, dropped = list(mutants), set()
    marks = None if marks is None else dict(marks)
    while True:
        text, owners = spliced(source, mutants, marks)
        lines = complaints(text, name, arguments, scratch)
        if not lines:
            return text, dropped
        bad = to_drop(lines, owners)
        if not bad:  # nobody's line: it surrounds the change behind it
            behind = [n for n in owners if owners[n] and n > lines[0]]
            bad = to_drop([min(behind)], owners) if behind else set()
        if not bad:
            raise ValueError(f"{name}: does not compile at line {lines[0]} "
                             "of its text with mutants")
        dropped |= bad
        mutants = [m for m in mutants if m.number not in bad]
        if marks is not None:
            marks = {k: n for k, n in marks.items() if n not in bad}
