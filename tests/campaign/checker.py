"""An exact checker of lock histories.

The problem: what a client did is known only from outside. Of an acquire we
know when it was asked and when it was answered, not when it took effect; of a
call whose answer never came we know nothing but its begin. So each grant gets
the *smallest* stretch of time in which it was held beyond doubt:

    from   the answer to its acquire
    to     the first of: its (last) release is asked; its process is killed;
           the deadline that the library itself named in a query. After a loss:
           the last query that still said "held".

Exact: real grants may be longer than these stretches, never shorter. Each
point in between can be chosen freely, so a history is one of a mutex if and
only if no two stretches overlap; unknown operations are open-ended (an
unknown acquire forces no stretch, an unknown release ends one when it was
asked) and constrain nothing else. Linear in the history's length; nothing is
searched.

The models, one function each:

    mutex       no two stretches overlap, whoever owns them
    shared      of readers, writers and permits: no writer's stretch overlaps
                another owner's, and permits in use are never above the size
    owner       only what is one's own is released, and once
    reentrant   the hold count is own acquires - own releases; a re-entry
                shows the same token; a lost caller stays lost until unwound
    fenced      tokens rise strictly in the order of grants, no two alike
    told        a loss is told by the deadline; no query says "held" after it
    outcomes    each operation ends once, within its limit
    resource    the set and the counter, read-modify-write under the lock and
                guarded by the fence, lose no acknowledged element

`mutex` and `shared` are the only ones that a store which forgets may break:
from the first fault on that the history calls lossy, their findings are
counted, not failures. Before it, and all others at any time, they are. The format of a history
stands in history.py.
"""

import bisect
import json
import sys

TOKEN_LIMIT = 2 ** 53
MS = 1_000_000
# Of `snib run`: done, unreachable, busy, lost; one of its processes killed.
EXITS = {0, 69, 75, 76, 128 + 15, 128 + 9, -9}
# 70, an internal error, is one of these only if it says that its holder process
# was killed.
KILLED = (70, "died while it waited for the lock")


class Finding:
    """What is wrong: the model, a sentence, when; soft: exclusion, lossy."""

    def __init__(self, model, text, at=0, soft=False):
        self.model, self.text, self.at, self.soft = model, text, at, soft

    def __repr__(self):
        return (f"{self.model}{' (lossy store)' if self.soft else ''}:"
                f" {self.text} [t={self.at}]")


class Verdict:
    """The findings and the numbers of one history."""

    def __init__(self, findings, counts):
        self.counts = counts
        self.failures = [f for f in findings if not f.soft]
        self.broken = [f for f in findings if f.model in ("mutex", "shared")]

    @property
    def ok(self):
        return not self.failures

    def __str__(self):
        lines = [f"FAILED {finding!r}" for finding in self.failures[:20]]
        if len(self.failures) > 20:
            lines.append(f"… and {len(self.failures) - 20} more")
        fence = not any(f.model in ("fenced", "resource")
                        for f in self.failures)
        lines.append(f"exclusion broken {len(self.broken)} times, fence"
                     f" {'held' if fence else 'BROKEN'}")
        return "\n".join(lines)


class Tenure:
    """All holds of one owner under one token."""

    def __init__(self, lock, owner, process, token):
        self.lock, self.owner, self.process = lock, owner, process
        self.token = token
        self.asked = None      # the first acquire: began
        self.lo = None         # … ended
        self.hi = None         # end of the stretch; None: nothing is certain
        self.grants = {}       # id -> release asked at, None
        self.probes = []
        self.lease_ms = 0
        self.gone = None       # the last hold's release was asked
        self.stamps = []       # sections of the command line
        self.kind = "mutex"    # read, write, permits
        self.permits = self.size = 0
        self.ticket = None

    @property
    def sole(self):
        return self.kind in ("mutex", "write")

    def __str__(self):
        return f"{self.owner} token {self.token}"


class History:
    """The lines of a history, sorted into tenures."""

    def __init__(self, lines):
        self.lines = sorted(lines, key=lambda line: line["t"])
        self.meta = {"eps_ms": 500}
        self.killed, self.told, self.frozen = {}, {}, {}
        self.blackouts, self.pulse_ms = [], 0
        self.lossy_from = None
        self.tenures = {}
        self._grants = {}
        for line in self.lines:
            take = getattr(self, "_on_" + line["op"], None)
            if take is not None:
                take(line)
        for tenure in self.tenures.values():
            self._stretch(tenure)

    def _on_meta(self, line):
        self.meta.update(line)

    def _on_pulse(self, line):
        self.pulse_ms = max(self.pulse_ms, line["gap_ms"])

    def _on_killed(self, line):
        self.killed.setdefault(line["p"], line["t"])

    def _on_frozen(self, line):
        self.frozen.setdefault(line["p"], []).append(
            (line["t"], line.get("until")))

    def _on_blackout(self, line):
        self.blackouts.append((line["began"], line["ended"]))

    def _on_nemesis(self, line):
        if line.get("lossy") and self.lossy_from is None:
            self.lossy_from = line["t"]

    def _on_told(self, line):
        self.told.setdefault((line["p"], line["token"]), []).append(line)

    def _on_acquire(self, line):
        if line["e"] != "ok":
            return
        key = (line["lock"], line["owner"], line["token"])
        if "kind" in line:  # readers share tokens
            key += (line["grant"],)
        tenure = self.tenures.get(key)
        if tenure is None:
            tenure = self.tenures[key] = Tenure(
                line["lock"], line["owner"], line["p"], line["token"])
            tenure.kind = line.get("kind", "mutex")
            tenure.permits = line.get("permits", 0)
            tenure.size = line.get("size", 0)
            tenure.ticket = line.get("ticket")
        if tenure.lo is None or line["ended"] < tenure.lo:
            tenure.asked, tenure.lo = line["began"], line["ended"]
        tenure.lease_ms = max(tenure.lease_ms, line.get("lease_ms", 0))
        tenure.grants[line["grant"]] = None
        self._grants[line["grant"]] = tenure

    def _on_probe(self, line):
        tenure = self._grants.get(line["grant"])
        if tenure is not None:
            tenure.probes.append(line)

    def _on_release(self, line):
        tenure = self._grants.get(line["grant"])
        if tenure is None or tenure.owner != line["owner"]:
            return
        if (line["e"] == "invoke"
                and tenure.grants[line["grant"]] is None):
            tenure.grants[line["grant"]] = line["t"]

    def _on_section(self, line):
        """A command under `snib run`: that it executes is its claim."""
        key = (line["lock"], line["p"], line["token"])
        tenure = self.tenures.get(key)
        if tenure is None:
            tenure = self.tenures[key] = Tenure(
                line["lock"], line["p"], line["p"], line["token"])
            tenure.asked, tenure.lo = line.get("asked", line["t"]), line["t"]
        tenure.stamps.append(line["t"])

    def _stretch(self, tenure):
        if tenure.stamps:
            tenure.hi = max(tenure.stamps)
            return
        held = [probe for probe in tenure.probes if probe["held"]]
        if not held:
            return
        asked = list(tenure.grants.values())
        if None not in asked:
            tenure.gone = max(asked)
        if (self.lost_at(tenure) is not None):
            end = max(probe["began"] for probe in held)
        else:
            end = max(probe["began"] + probe["left_ms"] * MS
                      for probe in held)
        for cap in (tenure.gone, self.killed.get(tenure.process)):
            end = end if cap is None else min(end, cap)
        tenure.hi = end if end > tenure.lo else None

    def told_of(self, tenure):
        """What the callback told of it."""
        return [line for line in
                self.told.get((tenure.process, tenure.token), ())
                if tenure.ticket is None
                or line.get("ticket") in (None, tenure.ticket)]

    def lost_at(self, tenure):
        """When the loss was known outside: told, or a query said so."""
        known = [line["t"] for line in self.told_of(tenure)
                 if line["state"] == "lost"]
        known += [probe["ended"] for probe in tenure.probes
                  if probe["state"] == "lost"]
        return min(known, default=None)

    @property
    def eps_ns(self):
        """How late a callback may be *seen*: the machine's own delay counts
        as measured, on top of the allowance."""
        return int((self.meta["eps_ms"] + self.pulse_ms) * MS)

    def was_frozen(self, process, begin, end):
        """Was it stopped at any time in there (or not long thawed)?"""
        return any(start <= end and (until is None or until >= begin)
                   for start, until in self.frozen.get(process, ()))

    def by_lock(self):
        found = {}
        for tenure in self.tenures.values():
            found.setdefault(tenure.lock, []).append(tenure)
        return found


# -- the models ---------------------------------------------------------------


def check_mutex(history):
    """Held by own deadline, twice at one instant."""
    for tenures in history.by_lock().values():
        if any(t.kind != "mutex" for t in tenures):
            continue
        stretches = sorted((t for t in tenures if t.hi is not None),
                           key=lambda t: t.lo)
        last = None
        for tenure in stretches:
            if last is not None and tenure.lo < last.hi:
                soft = (history.lossy_from is not None
                        and tenure.lo >= history.lossy_from)
                until = min(last.hi, tenure.hi)
                yield Finding(
                    "mutex", f"{last} and {tenure} both held for"
                    f" {(until - tenure.lo) / MS:.3f} ms", tenure.lo, soft)
            if last is None or tenure.hi > last.hi:
                last = tenure


def check_shared(history):
    """A writer beside somebody else; more permits than there are."""
    for lock, tenures in history.by_lock().items():
        if all(t.kind == "mutex" for t in tenures):
            continue
        inside = []
        for tenure in sorted((t for t in tenures if t.hi is not None),
                             key=lambda t: t.lo):
            inside = [t for t in inside if t.hi > tenure.lo]
            soft = (history.lossy_from is not None
                    and tenure.lo >= history.lossy_from)
            for other in inside:
                if not (other.sole or tenure.sole) or (
                        other.owner == tenure.owner
                        and other.sole != tenure.sole):
                    continue  # they share; or the writer reads
                until = min(other.hi, tenure.hi)
                yield Finding(
                    "shared", f"{lock}: {other} ({other.kind}) and {tenure}"
                    f" ({tenure.kind}) both held for"
                    f" {(until - tenure.lo) / MS:.3f} ms", tenure.lo, soft)
            inside.append(tenure)
            used = sum(t.permits for t in inside)
            if tenure.permits and used > tenure.size:
                yield Finding(
                    "shared", f"{lock}: {used} permits of {tenure.size} in"
                    f" use with {tenure}", tenure.lo, soft)


def check_owner(history):
    """Release of what is not one's own, or no longer, is refused."""
    done = {}
    for line in history.lines:
        if line["op"] != "release" or line["e"] != "ok":
            continue
        tenure = history._grants.get(line["grant"])
        if tenure is None or tenure.owner != line["owner"]:
            yield Finding("owner", f"{line['owner']} released {line['grant']},"
                          " which it never held", line["t"])
            continue
        if line["grant"] in done:
            yield Finding("owner", f"{tenure}: {line['grant']} released twice",
                          line["t"])
        done[line["grant"]] = line["t"]
        lost = history.lost_at(tenure)
        if lost is not None and lost < line["began"]:
            yield Finding("owner", f"{tenure}: release is done, though the"
                          " loss was known before", line["t"])


class _Caller:
    """What one caller may count: between low and high holds."""

    def __init__(self):
        self.low = self.high = 0
        self.token = None


def check_reentrant(history):
    """Hold counts; the token of a re-entry; lost stays lost."""
    callers = {}
    grant_of = {}
    ended = set()
    for line in history.lines:
        if line["op"] not in ("acquire", "release") or line["e"] == "invoke":
            continue
        caller = callers.setdefault(
            (line["lock"], line["owner"], line.get("kind")), _Caller())
        if line["op"] == "acquire":
            if line["e"] == "unknown":
                caller.high += 1
                continue
            if line["e"] != "ok":
                continue
            if caller.low > 0 and line["token"] != caller.token:
                yield Finding(
                    "reentrant", f"{line['owner']} holds token {caller.token},"
                    f" and its re-entry shows {line['token']}", line["t"])
            if line["token"] != caller.token:
                caller.low = caller.high = 0
            if not caller.low + 1 <= line["holds"] <= caller.high + 1:
                yield Finding(
                    "reentrant", f"{line['owner']} token {line['token']}:"
                    f" {line['holds']} holds after {caller.low} to {caller.high}"
                    " and one more", line["t"])
            caller.low = caller.high = line["holds"]
            caller.token = line["token"]
            grant_of[line["grant"]] = line["token"]
        elif (line["grant"] not in ended
              and grant_of.get(line["grant"]) == caller.token):
            # A definite refusal of a release unwinds a lost grant as well.
            caller.low = max(0, caller.low - 1)
            if line["e"] != "unknown":
                ended.add(line["grant"])
                caller.high = max(0, caller.high - 1)


def check_fenced(history):
    """Tokens: in range, no two alike, rising in grant order."""
    for lock, tenures in history.by_lock().items():
        seen = {}
        for tenure in sorted(tenures, key=lambda t: t.lo):
            if not 0 < tenure.token < TOKEN_LIMIT:
                yield Finding("fenced", f"{tenure}: out of range", tenure.lo)
            other = (tenure if tenure.kind == "read"  # it shows the era
                     else seen.setdefault(tenure.token, tenure))
            if other is not tenure:
                yield Finding("fenced", f"{lock}: {other} and {tenure} got"
                              " the same token", tenure.lo)
        # Answered before the other was asked: that order is beyond doubt.
        yield from _rising(tenures, lambda t: t.lo, lambda t: t.asked,
                           "was granted before")
        if history.lossy_from is None:
            # Grants exclude each other: an earlier stretch, an earlier grant.
            yield from _rising([t for t in tenures
                                if t.hi is not None and t.sole],
                               lambda t: t.hi, lambda t: t.lo,
                               "was held before")


def _rising(tenures, end_of, begin_of, how):
    """Who ended before somebody begins must have the lower token."""
    ends = sorted(tenures, key=end_of)
    times = [end_of(tenure) for tenure in ends]
    highest = []
    for tenure in ends:
        top = highest[-1] if highest else tenure
        highest.append(tenure if tenure.token >= top.token else top)
    for tenure in sorted(tenures, key=begin_of):
        before = bisect.bisect_left(times, begin_of(tenure))
        top = highest[before - 1] if before else None
        if top is not None and top is not tenure and (
                top.token > tenure.token):
            yield Finding("fenced", f"{top} {how} {tenure}, and the token"
                          " fell", tenure.lo)


def check_told(history):
    """A loss is told by the deadline, or at the first instruction after it."""
    for tenure in history.tenures.values():
        yield from _check_queries(tenure)
        yield from _check_callback(history, tenure)
        for blackout in history.blackouts:
            yield from _check_blackout(history, tenure, *blackout)


def _check_queries(tenure):
    denied = None
    for probe in sorted(tenure.probes, key=lambda line: line["began"]):
        if not probe["held"]:
            if probe["state"] == "lost" and (
                    denied is None or probe["ended"] < denied):
                denied = probe["ended"]
            continue
        if probe["state"] in ("lost", "released"):  # looked at just before
            yield Finding("told", f"{tenure}: held, and {probe['state']}",
                          probe["began"])
        if denied is not None and probe["began"] > denied:
            yield Finding("told", f"{tenure}: held again after a loss",
                          probe["began"])


def _alive_until(history, tenure, when):
    """May a word of it be expected by then?"""
    killed = history.killed.get(tenure.process)
    gone = [at for at in (killed, tenure.gone, history.meta.get("ended"))
            if at is not None]
    return all(at > when for at in gone)


def _check_callback(history, tenure):
    lost = [probe for probe in tenure.probes if probe["state"] == "lost"]
    if not lost:
        return
    first = min(probe["ended"] for probe in lost)
    limit = first + history.eps_ns
    told = [line["t"] for line in history.told_of(tenure)
            if line["state"] == "lost"]
    if (not told or min(told) > limit) and _alive_until(
            history, tenure, limit) and not history.was_frozen(
                tenure.process, first, limit):
        yield Finding("told", f"{tenure}: a query said lost, the callback"
                      f" {'never' if not told else 'too late'}", first)


def _check_blackout(history, tenure, begin, end):
    """Nothing answered is the store's word after `begin`: a deadline counts
    from the sending of what was answered, so it is not past begin + lease."""
    if tenure.stamps or not tenure.lease_ms or tenure.lo > begin:
        return
    deadline = begin + tenure.lease_ms * MS
    limit = deadline + history.eps_ns
    if end < limit or not _alive_until(history, tenure, limit):
        return
    if any(line["t"] < begin and line["state"] == "lost"
           for line in history.told_of(tenure)):
        return
    if any(probe["ended"] <= begin and not probe["held"]
           for probe in tenure.probes):
        return
    for probe in tenure.probes:
        if probe["held"] and probe["began"] > deadline:
            yield Finding("told", f"{tenure}: held"
                          f" {(probe['began'] - deadline) / MS:.3f} ms after"
                          " the last possible deadline", probe["began"])
            return
    if history.was_frozen(tenure.process, begin, limit):
        return
    told = [line["t"] for line in history.told_of(tenure)
            if line["state"] == "lost"]
    if not told or min(told) > limit:
        yield Finding("told", f"{tenure}: store silent since {begin}, loss"
                      f" not told by {limit}", limit)


def check_outcomes(history):
    """Each operation ends at most once, and within its limit."""
    open_ops, ended = {}, set()
    for line in history.lines:
        if line["op"] in ("hang", "stuck", "broken", "residue"):
            yield Finding("outcomes", f"{line['op']}: {line.get('p', '')}"
                          f" {line.get('err', '')} {line['text']}", line["t"])
        if line["op"] == "run" and line["exit"] not in EXITS and not (
                line["exit"] == KILLED[0] and KILLED[1] in line["text"]):
            yield Finding("outcomes", f"snib run {line['p']} ended with"
                          f" {line['exit']}: {line['text']}", line["t"])
        if line["op"] not in ("acquire", "release"):
            continue
        if line["e"] == "invoke":
            open_ops[line["id"]] = line
            continue
        if line["id"] in ended or line["id"] not in open_ops:
            yield Finding("outcomes", f"{line['op']} {line['id']} ended"
                          " without a begin, or twice", line["t"])
            continue
        ended.add(line["id"])
        limit_ms = open_ops[line["id"]].get("limit_ms")
        took_ms = (line["ended"] - line["began"]) / MS
        if (limit_ms is not None
                and took_ms > limit_ms + history.eps_ns / MS
                and not history.was_frozen(line["p"], line["began"],
                                           line["ended"])):
            yield Finding("outcomes", f"{line['op']} of {line['owner']} took"
                          f" {took_ms:.0f} ms, its limit was {limit_ms}",
                          line["t"])


def check_resource(history):
    """The set: acknowledged means there. The counter: one for each."""
    asked, sure, final = set(), {}, None
    for line in history.lines:
        if line["op"] == "write":
            (asked.add(line["element"]) if line["e"] == "invoke"
             else sure.update({line["element"]: line})
             if line["e"] == "ok" else None)
        elif line["op"] == "final":
            final = line
    if final is None:
        if sure:
            yield Finding("resource", "the history has no final read")
        return
    elements = [element for _, element in final["elements"]]
    there = set(elements)
    for element in sorted(set(sure) - there, key=lambda e: sure[e]["t"]):
        yield Finding("resource", f"acknowledged element {element} (token"
                      f" {sure[element].get('token')}) is lost",
                      sure[element]["t"])
    for element in sorted(there - asked):
        yield Finding("resource", f"element {element} was never written")
    if len(elements) != len(there):
        yield Finding("resource", "an element is there twice")
    if final["count"] != len(elements):
        yield Finding("resource", f"the counter says {final['count']}, there"
                      f" are {len(elements)} elements")
    last = 0
    for token, element in final["elements"]:
        if token < last:
            yield Finding("resource", f"element {element} was written with"
                          f" token {token} after token {last}")
        last = max(last, token)


MODELS = [check_mutex, check_shared, check_owner, check_reentrant, check_fenced, check_told,
          check_outcomes, check_resource]


def count(history):
    """The numbers of a summary."""
    counts = {"operations": 0, "grants": 0, "losses": 0, "unknown": 0,
              "sections": 0, "refused_writes": 0, "written": 0}
    for line in history.lines:
        if line["op"] in ("acquire", "release") and line["e"] == "invoke":
            counts["operations"] += 1
        elif line["op"] in ("acquire", "release"):
            counts["unknown"] += line["e"] == "unknown"
        elif line["op"] == "write":
            counts["written"] += line["e"] == "ok"
            counts["refused_writes"] += line["e"] == "fail"
    for tenure in history.tenures.values():
        counts["grants"] += 1
        counts["sections"] += bool(tenure.stamps)
        counts["losses"] += (not tenure.stamps
                             and history.lost_at(tenure) is not None)
    return counts


def check(lines):
    """All models over one history; a Verdict."""
    history = History(lines)
    findings = [finding for model in MODELS for finding in model(history)]
    return Verdict(findings, count(history))


def read(path):
    """The lines of a history file. A line cut off by kill -9 is no line."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for text in file:
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
    return lines


if __name__ == "__main__":
    VERDICT = check(read(sys.argv[1]))
    print(VERDICT.counts)
    print(VERDICT)
    sys.exit(0 if VERDICT.ok else 1)
