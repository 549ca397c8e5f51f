#!/usr/bin/env python3
"""Change the product in small ways and see whether a test notices.

usage: ./dev mutate [OPTION…]

What is drawn
  --count N       so many mutants (default: 200)
  --seed S        another draw; without it the commit decides
  --diff REV      only lines that changed since REV
  --only PATH     only this file or folder; may be given again
  --rule RULE     only this rule; may be given again
  --run N[,N…]    just these, by number

What is done with them
  --list          show the draw (with --all: every mutant), run nothing
  --show N[,N…]   show the change as a diff, and the text of a mark
  --marks         check the marks of equivalent mutants, run nothing
  --map           look anew which test reaches what; else only for changed
                  tests

How
  --jobs N        tests at a time (default: SNIB_JOBS or 2)
  --budget S      seconds of pytest cases a mutant (default: 40); the cases
                  left out are counted in the report
  --thorough      no budget
  --by TEST       only this program of ctest's (unit.resp, threads.same, …) is
                  built and run, whatever it reaches: what does it find?  May
                  be given again; no map, no sanitizers
  --minutes N     begin no further mutant after so many minutes; what was drawn
                  and not judged is counted
  --resume        of an earlier run that was cut off: what --out has a verdict
                  of is not judged again
  --fail-under P  exit status 1 when less than P per cent are found
  --out FILE      the report as lines of JSON (default:
                  build/results/mutants.jsonl)

What no test has found is run once more in the gate's build with sanitizers
(unit programs and schedules of threads, up to 20 s of them, four times as slow;
building them takes a minute or two); by "asan:…" in the report.

A number stays that of its mutant as long as the sources do. The tests run in
namespaces of their own (Linux, unshare): a mutant may kill, write and fill
what it likes. Exit status: 0, 1 (see above, or a stale mark), 64 usage,
69 something is missing."""
import argparse
import os
import queue
import shutil
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cover  # noqa: E402
import draw  # noqa: E402
import marks  # noqa: E402
import report  # noqa: E402
import rules_c  # noqa: E402
import scripts  # noqa: E402
from agent import Agent, can_be_apart  # noqa: E402
from built import BuildFailed, Copy  # noqa: E402
from judge import Judge  # noqa: E402
from sanitized import Sanitizers  # noqa: E402
from suites import Suites, program_of  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))


class Usage(argparse.ArgumentParser):
    def error(self, message):
        print(f"mutate: {message}; --help shows the options",
              file=sys.stderr)
        sys.exit(64)


def numbers(text):
    return [int(n) for n in text.split(",")]


def options_of(words):
    ap = Usage(add_help=False)
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--seed")
    ap.add_argument("--diff")
    ap.add_argument("--only", action="append", default=[])
    ap.add_argument("--rule", action="append", default=[],
                    choices=draw.RULES)
    ap.add_argument("--run", type=numbers, default=[])
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--show", type=numbers, default=[])
    ap.add_argument("--marks", action="store_true")
    ap.add_argument("--map", action="store_true")
    ap.add_argument("--jobs", type=int,
                    default=int(os.environ.get("SNIB_JOBS", "2")))
    ap.add_argument("--budget", type=float, default=40)
    ap.add_argument("--thorough", action="store_true")
    ap.add_argument("--by", action="append", default=[])
    ap.add_argument("--minutes", type=float, default=float("inf"))
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--fail-under", type=float)
    ap.add_argument("--out")
    ap.add_argument("--help", "-h", action="store_true")
    options = ap.parse_args(words)
    if options.thorough:
        options.budget = float("inf")
    if options.count < 1 or options.jobs < 1:
        ap.error("--count and --jobs are at least 1")
    return options


def missing():
    """What is not there, in one line; or nothing."""
    if rules_c.MISSING:
        return rules_c.MISSING
    for program in ("clang", "cmake", "ninja", "ctest", "luac5.1", "unshare",
                    "setpriv", "ip"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if not can_be_apart():
        return ("no namespaces here (unshare was refused): a mutant might "
                "kill what is not its own")
    return ""


class Tool:
    def __init__(self, root, options):
        self.root, self.options = str(root), options
        self.base = os.path.join(self.root, "build", "mutate")
        # What is looked at: the sources may change while this runs.
        taken = Copy(self.root, os.path.join(self.base, "taken"))
        taken.sync({})
        self.taken = taken.tree
        self.copy = self.copy_named("mutants")
        self.began = time.monotonic()

    def say(self, text):
        now = int(time.monotonic() - self.began)
        print(f"{now // 60}:{now % 60:02} {text}", flush=True)

    def copy_named(self, name):
        return Copy(self.taken, os.path.join(self.base, name),
                    self.options.jobs)

    # -- what there is --------------------------------------------------------

    def load(self):
        """All mutants and the marks. Configuring makes what the rules must
        know: how each file is compiled."""
        if not os.path.exists(os.path.join(self.copy.bin,
                                           "compile_commands.json")):
            self.copy.sync({})
        else:  # files that came or went
            self.copy.sync({p: self.kept(p) for p in draw.sources(self.taken)
                            if self.kept(p) is not None})
        self.copy.configure()
        self.copy.run("cmake", "--build", self.copy.bin, "--target",
                      "snib_redis_scripts")
        self.known = self.copy.arguments()
        self.mutants = draw.enumerate_all(
            self.taken, self.known, self.options.jobs,
            os.path.join(self.base, "places.pickle"))
        self.marks = marks.read(self.taken)
        self.stale = marks.stale(self.marks, self.mutants)

    def kept(self, path):
        """A source as it is in the copy: not to be built twice."""
        try:
            with open(os.path.join(self.copy.tree, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def chosen(self):
        o = self.options
        found = self.mutants
        if o.run:
            by_number = {m.number: m for m in found}
            unknown = [n for n in o.run if n not in by_number]
            if unknown:
                raise SystemExit(f"mutate: no mutant {unknown[0]}; there are "
                                 f"{len(found)}")
            return [by_number[n] for n in o.run]
        if o.only:
            wanted = [w.rstrip("/") for w in o.only]
            found = [m for m in found if any(
                m.path == w or m.path.startswith(w + "/") for w in wanted)]
        if o.rule:
            found = [m for m in found if m.rule in o.rule]
        if o.diff:
            lines = draw.changed_lines(self.root, o.diff)
            found = [m for m in found if m.line in lines.get(m.path, ())]
        seed = o.seed or draw.seed_of(self.root)
        order = draw.shuffled(found, seed)
        self.say(f"{len(self.mutants)} mutants; drawing from {len(found)} at "
                 f"{len(order)} places, seed {seed}")
        return order

    # -- building and running -------------------------------------------------

    def sample(self, order):
        sample = draw.Sample(self.taken, self.known,
                             os.path.join(self.base, "check"))
        sample.draw(order, len(order) if self.options.run
                    else self.options.count)
        if sample.dropped:
            self.say(f"{sample.dropped} did not compile: others drawn")
        return sample

    def build(self, sample):
        files = dict(sample.files)
        self.scripts = os.path.join(self.base, "scripts")
        more = scripts.prepare(self.taken, sample.mutants, self.scripts)
        if more:
            for path in scripts.users_of_scripts(self.taken,
                                                 draw.sources(self.taken)):
                files[path] = files.get(path) or sample.source(path)
                files[path] += more.encode()
        self.copy.sync(files)
        self.copy.configure()
        self.copy.build(self.targets())
        self.say(f"built: {len(sample.mutants)} mutants in {len(files)} files")

    def named(self):
        """The programs of --by."""
        units = {u.name: u for u in Suites(self.copy).programs}
        return [units[name] for name in self.options.by]

    def targets(self):
        """What is to be built; nothing: all."""
        programs = {name: program_of(self.copy.bin, name)
                    for name in self.options.by}
        unknown = [name for name, at in programs.items() if not at]
        if unknown:
            raise ValueError(f"no program of ctest's is named {unknown[0]}; "
                             "ctest -N shows the names")
        return sorted({os.path.relpath(at, self.copy.bin)
                       for at in programs.values()})

    def agents(self, python, count):
        return [Agent(python, self.root) for _ in range(count)]

    def map(self):
        """The map of what reaches what, brought up to date."""
        found = cover.Map(os.path.join(self.base, "map.json.gz"))
        copy = self.copy_named("cover")
        suites = Suites(self.copy)
        recorder = cover.Recorder(found, suites, [], "", self.say)
        if not recorder.wanted(self.options.map) and found.units:
            found.index()
            return found
        if self.options.map:
            found.places, found.units = [], {}
        scratch = os.path.join(self.base, "check")
        os.makedirs(scratch, exist_ok=True)
        files = cover.instrument(found, self.taken, self.mutants, self.known,
                                 scratch)
        copy.sync(files)
        copy.configure()
        copy.build()
        self.say("built with a mark at each place")
        suites = Suites(copy)
        agents = self.agents(suites.python, self.options.jobs + 1)
        try:
            recorder = cover.Recorder(found, suites, agents, copy.base,
                                      self.say)
            jobs = recorder.wanted(self.options.map)
            self.say(f"running {len(jobs)} tests to see what they reach")
            recorder.run(jobs)
        finally:
            for agent in agents:
                agent.close()
        found.save()
        found.index()
        return found

    def units(self, found):
        """The units of the build with mutants, with what the map knows."""
        suites, units = Suites(self.copy), {}
        if found is None:
            return suites.python, self.timed(suites.python)
        entries = {os.path.relpath(e[1], self.copy.tree): e
                   for e in suites.files}
        for unit in suites.programs:
            units[unit.name] = unit
        for name, kept in found.units.items():
            if kept["nodes"] is not None and kept["source"] in entries:
                units[name] = suites.of_file(entries[kept["source"]],
                                             kept["nodes"], name)
        for name, unit in list(units.items()):
            kept = found.units.get(name)
            if not kept or not kept["good"]:
                del units[name]
                continue
            unit.seconds = kept["seconds"]
            unit.reached = frozenset(kept["reached"])
        return suites.python, units

    def timed(self, python):
        """The programs of --by, as they are without a mutant."""
        agent, units = Agent(python, self.root), {}
        log = os.path.join(self.copy.base, "test-0.log")
        try:
            for unit in self.named():
                done = agent.run(unit.job(log, 600))
                if done["status"]:
                    raise ValueError(f"{unit.name} fails without a mutant: "
                                     f"see {log}")
                unit.seconds, unit.reached = done["seconds"], frozenset()
                units[unit.name] = unit
        finally:
            agent.close()
        return units

    def judge(self, sample, found):
        python, units = self.units(found)
        judge = Judge(found, units, self.copy, self.options, self.say)
        judge.known = self.known
        judge.sanitizers = Sanitizers(self.copy, self.say)
        keys = draw.keys_of(self.taken, self.mutants)
        lock, failed = threading.Lock(), []
        out = self.options.out or os.path.join(self.root, "build", "results",
                                               "mutants.jsonl")
        os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
        earlier = report.read(out) if self.options.resume else {}
        waiting, verdicts = queue.SimpleQueue(), []
        for mutant in sample.mutants:
            verdict = earlier.get(report.key_of(mutant))
            if verdict:
                verdicts.append((mutant, verdict))
            else:
                waiting.put(mutant)
        if verdicts:
            self.say(f"{len(verdicts)} were judged before")
        end = time.monotonic() + 60 * self.options.minutes
        file = open(out, "w", encoding="utf-8")
        for mutant, verdict in verdicts:
            file.write(report.line_of(mutant, verdict) + "\n")

        def verdict_of(mutant, agent, log):
            if mutant.mark in self.marks:
                return {"verdict": "equivalent",
                        "why": self.marks[mutant.mark]}
            edit, key, binds = mutant.edits[0], "", []
            if mutant.path.endswith(".lua"):
                binds = scripts.binds(mutant, self.scripts, self.copy.tree)
            else:
                key = keys[mutant.path, edit.start, edit.end,
                           edit.form == "jump"][0]
            verdict = judge(mutant, key, agent, log, binds)
            if verdict["verdict"] in ("survived", "not covered") and \
                    judge.same_code(mutant):
                return {"verdict": "equivalent", "why": "the same machine "
                        "code"}
            if verdict["verdict"] == "survived" and key and found:
                return judge.with_sanitizers(mutant, key, agent, log, verdict)
            return verdict

        def work(number):
            agent = Agent(python, self.root)
            log = os.path.join(self.copy.base, f"test-{number}.log")
            try:
                while not failed and time.monotonic() < end:
                    try:
                        mutant = waiting.get_nowait()
                    except queue.Empty:
                        return
                    verdict = verdict_of(mutant, agent, log)
                    with lock:
                        verdicts.append((mutant, verdict))
                        file.write(report.line_of(mutant, verdict) + "\n")
                        file.flush()
                        self.say(f"{len(verdicts)}/{len(sample.mutants)} "
                                 + report.short(mutant, verdict))
            except Exception as why:  # told by the tool, not a thread
                failed.append(why)
            finally:
                agent.close()
        threads = [threading.Thread(target=work, args=(n,))
                   for n in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        file.close()
        if failed:
            raise failed[0]
        if not waiting.empty():
            self.say(f"{waiting.qsize()} of {len(sample.mutants)} drawn were "
                     "not judged: no time was left (--resume goes on)")
        return verdicts, judge, out

    def tell(self, verdicts, judge, out):
        print()
        print(report.table(verdicts, lambda m: m.path, "file")[0])
        print()
        text, share = report.table(verdicts, lambda m: m.folder, "folder")
        print(text)
        open_ = [v for v in verdicts
                 if v[1]["verdict"] in ("survived", "not covered")]
        if open_:
            print("\nNot found:")
        for mutant, verdict in sorted(open_, key=lambda v: v[0].number):
            print("  " + report.short(mutant, verdict))
        late = [v for _, v in verdicts if v.get("by", "").startswith("asan:")]
        if late:
            print(f"\nFound by the build with sanitizers alone: {len(late)}")
        for name, times in sorted(judge.unsure.items()):
            print(f"  a test that fails now and then, mutant or not: {name} "
                  f"({times} times)")
        print(f"\n{out}; --show N shows a change")
        return share


def ended_by(number, _):
    print(f"mutate: ended by {signal.Signals(number).name}", flush=True)
    os._exit(128 + number)  # the agents go along


def main(words, root=ROOT):
    options = options_of(words)
    if options.help:
        print(__doc__.strip())
        return 0
    why = missing()
    if why:
        print(f"mutate: {why}", file=sys.stderr)
        return 69
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended_by)
    tool = Tool(root, options)
    try:
        tool.load()
        for mark in tool.stale:
            print(f"{marks.PATH}: stale: {' '.join(mark[:2])} [{mark[2]}] "
                  f"{mark[3]}: {mark[4]}", file=sys.stderr)
        if tool.stale or options.marks:
            print(f"{len(tool.marks)} marks, {len(tool.stale)} stale")
            return 1 if tool.stale else 0
        if options.show:
            options.run = options.show
            for mutant in tool.chosen():
                with open(os.path.join(tool.taken, mutant.path),
                          "rb") as file:
                    print(report.diff(file.read(), mutant))
                print(marks.block_of(mutant) + "\n")
            return 0
        order = tool.chosen()
        if options.list:
            for mutant in tool.mutants if options.all else \
                    order[:options.count]:
                print(f"{mutant.number} {mutant.path}:{mutant.line} "
                      f"{mutant.function} [{mutant.rule}] {mutant.change}")
            return 0
        sample = tool.sample(order)
        if not sample.mutants:
            print("nothing to draw from")
            return 0
        tool.build(sample)
        found = None if options.by else tool.map()
        share = tool.tell(*tool.judge(sample, found))
    except (BuildFailed, marks.BadMark, ValueError) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 1
    if options.fail_under is not None and share is not None:
        return 1 if share < options.fail_under else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
