"""Which tests reach which place: a map that is made once and kept.

It is kept by content: a place by its text and function, a test by the text
of its file. After a change only tests that changed are run again; a place
whose text is new counts as reached by whatever reached its function, or,
where the function is new, its file. `--map` makes it afresh."""
import gzip
import hashlib
import json
import os
import pickle
import queue
import threading
import time

import draw
import splice
from built import arguments_of

FORM = 3  # of the file
SAVE_EACH = 60  # seconds; saving takes some itself
TRIES = 6  # a test that fails without any mutant: twice a run, three runs


class Map:
    def __init__(self, path):
        self.path = path
        # A place: [key, path, function, the generation that it is of].
        self.places, self.units, self.generation = [], {}, 0
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                kept = json.load(file)
            if kept["form"] == FORM:
                self.places, self.units = kept["places"], kept["units"]
                self.generation = kept["generation"]
        except (OSError, ValueError, KeyError):
            pass

    def save(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with gzip.open(self.path + ".new", "wt", encoding="utf-8",
                       compresslevel=3) as file:
            json.dump({"form": FORM, "generation": self.generation,
                       "places": self.places, "units": self.units}, file)
        os.rename(self.path + ".new", self.path)

    def extend(self, keys):
        """The numbers of these places in a new generation; those that are
        new since the last one are known to no test that is not run again."""
        self.generation += 1
        at = {place[0]: n for n, place in enumerate(self.places)}
        numbers = {}
        for place, (key, owner) in keys.items():
            if key not in at:
                at[key] = len(self.places)
                self.places.append([key, *owner, self.generation])
            numbers[place] = at[key]
        return numbers

    def index(self):
        """For lookups: units by place, by function, by file."""
        self.at = {place[0]: n for n, place in enumerate(self.places)}
        self.by_place = [set() for _ in self.places]
        self.by_function, self.by_file = {}, {}
        for name, unit in self.units.items():
            if not unit["good"]:
                continue
            for at in unit["reached"]:
                _, path, function, _ = self.places[at]
                self.by_place[at].add(name)
                self.by_function.setdefault((path, function), set()).add(name)
                self.by_file.setdefault(path, set()).add(name)

    def tests_of(self, key, path, function):
        wide = self.by_function.get((path, function)) or \
            self.by_file.get(path, set())
        if key not in self.at:
            return wide
        at = self.at[key]
        since = self.places[at][3]
        return self.by_place[at] | {
            n for n in wide if self.units[n]["generation"] < since}


def instrument(cover, root, mutants, known, scratch):
    """The files with marks. What was made of a file is kept until it, its
    marks, a header or how it is compiled change: a compiler is asked for
    each."""
    places = draw.keys_of(root, mutants)
    numbers = cover.extend(places)
    files, kept, cache = {}, {}, os.path.join(scratch, "marked.pickle")
    try:
        with open(cache, "rb") as file:
            kept = pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError):
        pass
    headers = draw.digest_of_headers(root)
    for path in sorted({p[0] for p in places}):
        marks = {place[1:]: numbers[place] for place in places
                 if place[0] == path}
        with open(os.path.join(root, path), "rb") as file:
            source = file.read()
        arguments = arguments_of(path, known)
        key = hashlib.sha1(repr((source, sorted(marks.items()),
                                 arguments, headers)).encode()).hexdigest()
        if kept.get(path, [""])[0] != key:
            kept[path] = key, *splice.compiled(
                source, [], os.path.join(root, path), arguments, scratch,
                marks)
        files[path] = kept[path][1].encode()
        for number in kept[path][2]:  # only its function is known
            cover.places[number][0] = ""
    with open(cache, "wb") as file:
        pickle.dump({path: kept[path] for path in files}, file)
    return files


class Recorder:
    def __init__(self, cover, suites, agents, logs, say):
        self.cover, self.suites, self.agents = cover, suites, agents
        self.logs, self.say = logs, say
        self.lock, self.done, self.again = threading.Lock(), 0, {}
        self.saved = time.monotonic()

    def wanted(self, fresh):
        """Jobs for what the map does not know, as functions of an agent."""
        jobs = []
        for unit in self.suites.programs:
            kept = self.cover.units.get(unit.name)
            if fresh or not kept or \
                    kept["hash"] != self.suites.digest_of(unit):
                jobs.append((0, lambda a, log, u=unit: self.program(a, log, u)))
        for entry in self.suites.files:
            path = os.path.relpath(entry[1], self.suites.copy.tree)
            now = self.suites.digest_of(self.suites.of_file(entry, []))
            kept = [u["hash"] for u in self.cover.units.values()
                    if u["source"] == path]
            if fresh or not kept or set(kept) != {now}:
                jobs.append((1, lambda a, log, e=entry: self.file(a, log, e)))
                continue
            for name, unit in self.cover.units.items():
                if unit["source"] == path and 0 < unit["failures"] < TRIES:
                    again = self.suites.of_file(entry, unit["nodes"], name)
                    jobs.append((0, lambda a, log, u=again:
                                 self.once_more(a, log, u)))
        jobs.sort(key=lambda j: -j[0])
        return [job for _, job in jobs]

    def keep(self, unit, found, word, reached, seconds, why=""):
        with self.lock:
            failures = self.cover.units.get(unit.name, {}).get("failures", 0)
            self.cover.units[unit.name] = {
                "failures": failures + 1 if word == "failed" else 0,
                "source": unit.source, "hash": self.suites.digest_of(unit),
                "seconds": seconds, "reached": reached,
                "generation": self.cover.generation, "nodes": unit.nodes,
                "good": word == "passed"}
            if word == "failed" and unit.name not in self.again:
                self.again[unit.name] = unit  # once more, when it is calm
            elif word == "failed":
                self.say(f"  left out, fails without any mutant: {unit.name}"
                         f" {why[:200]}")

    def once_more(self, agent, log, unit):
        if unit.is_program:
            self.program(agent, log, unit)
            return
        found = agent.run(unit.job(log, 600, places=len(self.cover.places),
                                   reach=True, case_limit=120))
        self.judge(unit, found, found["reached"][""], found["seconds"])

    def program(self, agent, log, unit):
        found = agent.run(unit.job(log, 400, places=len(self.cover.places)))
        word = {0: "passed", 77: "skipped"}.get(found["status"], "failed")
        self.keep(unit, found, word, found["reached"][""], found["seconds"])

    def file(self, agent, log, entry):
        path = os.path.relpath(entry[1], self.suites.copy.tree)
        with self.lock:  # cases that are there no more
            for name in [n for n, u in self.cover.units.items()
                         if u["source"] == path]:
                del self.cover.units[name]
        units = self.suites.cases(entry, agent, log)
        places = len(self.cover.places)
        if entry[0].startswith("conformance"):
            for unit in units:
                found = agent.run(unit.job(log, 600, places=places,
                                           reach=True, case_limit=120))
                self.judge(unit, found, found["reached"][""],
                           found["seconds"])
            return
        whole = self.suites.of_file(entry, [os.path.basename(entry[1])])
        found = agent.run(whole.job(log, 1200, places=places,
                                    case_limit=120))
        for unit in units:
            reached = sorted({p for n in unit.nodes
                              for p in found.get("reached", {}).get(n, [])})
            self.judge(unit, found, reached)

    def judge(self, unit, found, reached, seconds=None):
        results = [found["results"].get(n, ["failed", 0, "no result"])
                   for n in unit.nodes]
        words = [r[0] for r in results]
        word = "failed" if "failed" in words else \
            "passed" if "passed" in words else "skipped"
        why = next((r[2] for r in results if r[0] == "failed"), "")
        self.keep(unit, found, word, reached, seconds if seconds is not None
                  else sum(r[1] for r in results), why)

    def run(self, jobs):
        """All of them; then, one at a time, those that failed."""
        self.side_by_side(jobs, self.agents)
        self.side_by_side(
            [lambda a, log, u=unit: self.once_more(a, log, u)
             for unit in self.again.values()], self.agents[:1])

    def side_by_side(self, jobs, agents):
        self.done = 0
        waiting = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        total, failed = len(jobs), []

        def work(agent, log):
            while True:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    job(agent, log)
                except Exception as why:  # told by the tool, not a thread
                    failed.append(why)
                    return
                with self.lock:
                    self.done += 1
                    if self.done % 20 == 0 or self.done == total:
                        self.say(f"  map: {self.done} of {total}")
                    if time.monotonic() > self.saved + SAVE_EACH:
                        self.cover.save()
                        self.saved = time.monotonic()
        threads = [threading.Thread(target=work, args=(a, os.path.join(
            self.logs, f"map-{n}.log"))) for n, a in enumerate(agents)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
