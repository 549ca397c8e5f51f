"""What came out: a line of JSON a mutant, and a table."""
import difflib
import json

from mutant import flat, patched

WORDS = ["killed", "timed out", "survived", "not covered", "equivalent"]


def line_of(mutant, verdict):
    return json.dumps({
        "number": mutant.number, "path": mutant.path, "line": mutant.line,
        "function": mutant.function, "rule": mutant.rule,
        "text": mutant.text, "change": mutant.change, **verdict},
        ensure_ascii=False)


def key_of(mutant):
    """Which mutant it is, as long as its file stays as it is."""
    return mutant.number, mutant.path, mutant.line, mutant.change


def read(path):
    """{key: verdict} of the lines that are there; the last may be half a
    line, or the file be missing."""
    found = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            line = json.loads(line)
        except ValueError:
            continue
        key = tuple(line.pop(k) for k in ("number", "path", "line", "change"))
        found[key] = {k: v for k, v in line.items()
                      if k not in ("function", "rule", "text")}
    return found


def counts(verdicts, key):
    """{key: {word: number}} of [(mutant, verdict)]"""
    rows = {}
    for mutant, verdict in verdicts:
        row = rows.setdefault(key(mutant), dict.fromkeys(WORDS, 0))
        row[verdict["verdict"]] += 1
    return rows


def share(row):
    """Killed of those that can be, in per cent; None of none."""
    of = sum(row.values()) - row["equivalent"]
    return 100 * (row["killed"] + row["timed out"]) / of if of else None


def table(verdicts, key, title):
    rows = counts(verdicts, key)
    whole = {word: sum(r[word] for r in rows.values()) for word in WORDS}
    width = max([len(title), len("all"), *map(len, rows)])
    lines = [f"{title:{width}} {'drawn':>6} {'killed':>7} {'timed out':>10} "
             f"{'survived':>9} {'not covered':>12} {'equivalent':>11} "
             f"{'found':>7}"]
    for name, row in [*sorted(rows.items()), ("all", whole)]:
        part = share(row)
        found = "-" if part is None else f"{part:.1f} %"
        lines.append(
            f"{name:{width}} {sum(row.values()):6} {row['killed']:7} "
            f"{row['timed out']:10} {row['survived']:9} "
            f"{row['not covered']:12} {row['equivalent']:11} {found:>7}")
    return "\n".join(lines), share(whole)


def short(mutant, verdict):
    left = verdict.get("left")
    return (f"{mutant.number} {mutant.path}:{mutant.line} "
            f"{mutant.function} [{mutant.rule}] {flat(mutant.change)[:120]}"
            f" — {verdict['verdict']}"
            + (f", {verdict['tests']} tests run"
               if verdict.get("tests") else "")
            + (f", {left} left out by the budget" if left else "")
            + (f", {verdict['sanitized']} with sanitizers"
               if verdict.get("sanitized") else "")
            + (f" by {verdict['by']}" if verdict.get("by") else ""))


def diff(source, mutant):
    old = source.decode(errors="replace").splitlines(keepends=True)
    new = patched(source, mutant).decode(errors="replace").splitlines(
        keepends=True)
    return "".join(difflib.unified_diff(
        old, new, f"a/{mutant.path}", f"b/{mutant.path}"))
