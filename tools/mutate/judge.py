"""The verdict on a mutant: its tests, the likeliest and the fastest first,
until one fails."""
import os
import subprocess
import tempfile

from built import arguments_of
from mutant import patched
from sanitized import summary_of
from suites import OF_SCRIPTS

SHORT = 3.0    # seconds: programs up to this come first
FIRST = 12.0   # seconds of cases that come before the long programs


def limit_of(seconds):
    """A test with the mutant may take this long."""
    return 8 + 5 * seconds


class Judge:
    def __init__(self, cover, units, copy, options, say):
        self.cover, self.units, self.copy = cover, units, copy
        self.budget, self.say = options.budget, say
        self.kills, self.unsure = {}, {}
        self.size = {n: len(u.reached) for n, u in units.items()}

    def covering(self, mutant, key):
        if self.cover is None:
            return list(self.units.values())
        if mutant.path.endswith(".lua"):
            return [u for u in self.units.values()
                    if OF_SCRIPTS.search(u.name)]
        names = self.cover.tests_of(key, mutant.path, mutant.function)
        return [self.units[n] for n in names if n in self.units]

    def order(self, mutant, units):
        """Lists of units, each run as one; and those left out by the budget.
        What has killed in this file before comes first, then what reaches
        little: it was written for this."""
        def likely(unit):
            return (-self.kills.get((mutant.path, unit.name), 0),
                    self.size[unit.name] * (0.2 + unit.seconds))

        programs = sorted((u for u in units if u.is_program), key=lambda u: (
            -self.kills.get((mutant.path, u.name), 0), u.seconds))
        cases = sorted((u for u in units if not u.is_program), key=likely)
        left, spent, chosen = [], 0.0, []
        for unit in cases:
            if spent + unit.seconds > self.budget:
                left.append(unit)
            else:
                chosen.append((spent, unit))
                spent += unit.seconds
        early = [u for at, u in chosen if at + u.seconds <= FIRST]
        late = [u for at, u in chosen if at + u.seconds > FIRST]
        steps = [[u] for u in programs if u.seconds <= SHORT]
        steps += by_folder(early)
        steps += [[u] for u in programs if u.seconds > SHORT]
        steps += by_folder(late)
        return steps, left

    def __call__(self, mutant, key, agent, log, binds=()):
        """{"verdict", "by", …}"""
        units = self.covering(mutant, key)
        if not units:
            return {"verdict": "not covered", "tests": 0}
        steps, left = self.order(mutant, units)
        verdict = self.tried(steps, mutant, agent, log, binds)
        if verdict["verdict"] == "survived":
            verdict["left"] = len(left)
        return verdict

    def with_sanitizers(self, mutant, key, agent, log, verdict):
        """The last chance to be found, of one that has survived."""
        units, left = self.sanitizers.of(self.covering(mutant, key))
        again = self.tried([[u] for u in units], mutant, agent, log, ())
        if again["verdict"] != "survived":
            return again
        return {**verdict, "sanitized": len(units), "left_sanitized": left}

    def tried(self, steps, mutant, agent, log, binds):
        """The verdict of these, one step after another."""
        spent, ran = 0.0, 0
        for step in steps:
            ran += len(step)
            while step:
                killer, timed_out, why, seconds = self.attempt(
                    step, mutant.number, agent, log, binds)
                spent += seconds
                if not killer:
                    break
                if self.stands(killer, mutant.number, agent, log, binds):
                    at = mutant.path, killer[0].name
                    self.kills[at] = self.kills.get(at, 0) + 1
                    return {"verdict": "timed out" if timed_out else "killed",
                            "by": killer[0].name, "why": why[:200],
                            "seconds": round(spent, 1), "tests": ran}
                step = [u for u in step if u is not killer[0]]
        return {"verdict": "survived", "tests": ran,
                "seconds": round(spent, 1)}

    def attempt(self, units, number, agent, log, binds):
        """((unit, node) that failed or None, timed out, why, seconds)"""
        first = units[0]
        if first.is_program:
            found = agent.run(first.job(log, limit_of(first.seconds), number,
                                        binds=list(binds)))
            failed = found["status"] not in (0, 77)
            why = failed and first.sanitized and summary_of(log)
            return ((first, None) if failed else None, found["timed_out"],
                    why or f"status {found['status']}", found["seconds"])
        nodes = [n for u in units for n in u.nodes]
        limits = {n: limit_of(u.seconds) for u in units for n in u.nodes}
        whole = 2 * sum(u.seconds for u in units) + 20 + max(limits.values())
        job = units[0].job(log, whole, number, nodes, flags=["-x"],
                           limits=limits, binds=list(binds))
        found = agent.run(job)
        owner = {n: u for u in units for n in u.nodes}
        for node, (word, _, why) in found["results"].items():
            if word == "failed":
                return ((owner.get(node, first), node if node in owner
                         else None), "TimeoutError" in why, why,
                        found["seconds"])
        if found["timed_out"]:
            return (first, None), True, "no end", found["seconds"]
        if found["status"] not in (0, 5):
            return (first, None), False, f"status {found['status']}", \
                found["seconds"]
        return None, False, "", found["seconds"]

    def stands(self, killer, number, agent, log, binds):
        """By itself the same test fails again, and passes without the mutant:
        with twice the time, since a crowded machine may have been what took
        long. One that does not is a finding about the test, and kills
        nothing."""
        unit, node = killer
        if unit.of_simulator:
            return True  # the same worlds each time

        def passes(number, binds):
            found = agent.run(unit.job(
                log, 2 * limit_of(unit.seconds), number,
                [node] if node else None, binds=list(binds)))
            return found["status"] in (0, 77)
        good = not passes(number, binds) and passes(0, ())
        if not good:
            name = f"{unit.name} {node or ''}".strip()
            self.unsure[name] = self.unsure.get(name, 0) + 1
        return good

    def same_code(self, mutant):
        """Whether an optimizing compiler makes the same of both: then there
        is nothing to find."""
        if not mutant.path.endswith(".c"):
            return False
        path = os.path.join(self.copy.root, mutant.path)
        arguments = arguments_of(mutant.path, self.known)
        with open(path, "rb") as file:
            source = file.read()
        objects = [object_of(text, path, arguments)
                   for text in (source, patched(source, mutant))]
        return objects[0] is not None and objects[0] == objects[1]


def object_of(text, path, arguments):
    with tempfile.NamedTemporaryFile(suffix=".o") as to:
        done = subprocess.run(
            ["clang", "-O2", "-c", "-x", "c", "-w", *arguments, "-I",
             os.path.dirname(path), "-o", to.name, "-"], input=text,
            capture_output=True)
        if done.returncode:
            return None
        with open(to.name, "rb") as file:
            return file.read()


def by_folder(units):
    groups = {}
    for unit in units:
        key = os.path.dirname(unit.source), tuple(sorted(unit.env.items()))
        groups.setdefault(key, []).append(unit)
    return list(groups.values())
