"""What can kill a mutant: the tests of a build, in units that run alone.

A unit is a program (a unit test, some worlds of the simulator, a kept
scenario), or cases of pytest. Left out are those that judge the tree and not
the product, and those that take minutes by design."""
import hashlib
import json
import os
import re
import subprocess

LEFT_OUT = re.compile(
    r"^(lint|harness|package|campaign|mutate)\.|^docs\.manual$|^examples\.demo"
    r"|^sim\.(seeds|bugs_can|scenarios_detect|difftest)|stress")
WORLDS = [("a", ["--count", "250"]),
          ("b", ["--from", "251", "--count", "750"]),
          ("c", ["--from", "1001", "--count", "1000"]),
          ("quorum", ["--count", "250", "--quorum"]),
          ("circles", ["--count", "4000", "--circles"]),
          ("many", ["--count", "200", "--many"]),
          ("force", ["--count", "200", "--force"]),
          ("values", ["--count", "200", "--values"]),
          ("leases", ["--count", "4000", "--leases"])]
# What runs the scripts, as far as that is not told by what a test reaches:
# they run in the server.
OF_SCRIPTS = re.compile(r"^sim\.|^unit\.(value_rules|script_\w+)$"
                        r"|^live\.\w*scripts::"
                        r"|^live\.(several|value|quorum_keep)::"
                        r"|^conformance\..*redis")


class Unit:
    def __init__(self, name, env, cwd, source, argv=None, nodes=None):
        self.name, self.env, self.cwd = name, env, cwd
        self.argv, self.nodes = argv, nodes  # one of them
        self.source = source  # its own file, from the top of the tree
        self.seconds, self.reached = 0.0, frozenset()
        self.sanitized = False

    @property
    def is_program(self):
        return self.argv is not None

    @property
    def of_simulator(self):
        return self.name.startswith("sim.")

    def job(self, log, limit, mutant=0, nodes=None, **more):
        env = dict(self.env, MUTANT_OF_SNIB=str(mutant))
        job = {"env": env, "cwd": self.cwd, "log": log, "limit": limit,
               "sanitized": self.sanitized}
        if self.is_program:
            job["argv"] = self.argv
        else:
            folder = os.path.dirname(self.path)
            job["pytest"] = ["--rootdir", folder, *more.pop("flags", []), *(
                os.path.join(folder, n) for n in nodes or self.nodes)]
        return {**job, **more}


def group_of(suite, node):
    """Cases that a session runs side by side are one unit."""
    if suite != "conformance":
        return node.partition("::")[2]
    case = re.search(r"\[([^\]]*?)-(\w+)-\w+\]$", node)
    return f"{case[1]}-{case[2]}" if case else "rest"


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha1(file.read()).hexdigest()[:16]
    except OSError:
        return ""


def ctest(folder):
    done = subprocess.run(["ctest", "--test-dir", folder,
                           "--show-only=json-v1"], capture_output=True,
                          text=True, check=True)
    for test in json.loads(done.stdout)["tests"]:
        told = {p["name"]: p["value"] for p in test.get("properties", [])}
        env = dict(e.split("=", 1) for e in told.get("ENVIRONMENT", []))
        if test.get("command"):
            yield (test["name"], test["command"], env,
                   told.get("WORKING_DIRECTORY", folder))


def program_of(folder, name):
    """The program of this test of ctest's, built or not (ctest itself tells
    it only when it is there); or nothing."""
    for where, _, files in os.walk(folder):
        if "CTestTestfile.cmake" in files:
            with open(os.path.join(where, "CTestTestfile.cmake"),
                      encoding="utf-8") as file:
                found = re.search(r'^add_test\(\S*?\b' + re.escape(name)
                                  + r'\b\S* "([^"]+)"', file.read(), re.M)
            if found:
                return found[1]
    return ""


class Suites:
    def __init__(self, copy):
        self.copy, self.python, self.programs, self.files = copy, "", [], []
        seen = set()
        for name, command, env, cwd in ctest(copy.bin):
            if len(command) > 2 and command[1].endswith("pytest_case.py"):
                self.python = command[0]
            if LEFT_OUT.search(name):
                continue
            if len(command) > 2 and command[1].endswith("pytest_case.py"):
                self.files.append((name, command[2], env, cwd))
            else:
                self.programs.append(Unit(name, env, cwd, self.source_of(
                    name, command), argv=command))
            if name.startswith("sim.scenario.") and not seen:
                seen.add(name)
                self.programs += [
                    Unit(f"sim.worlds.{word}", env, cwd, "",
                         argv=[command[0], *args, "--jobs", "1", "--brief"])
                    for word, args in WORLDS]
        self.python = self.python or "/usr/bin/python3"

    def source_of(self, name, command):
        stem = name.rpartition(".")[2]
        for path in (f"tests/unit/test_{stem}.c",
                     f"tests/sim_model/test_{stem}.c"):
            if os.path.exists(os.path.join(self.copy.tree, path)):
                return path
        for word in command[1:]:
            if word.startswith(self.copy.tree):
                return os.path.relpath(word, self.copy.tree)
        return ""

    def cases(self, entry, agent, log):
        """The units of a file of pytest."""
        name, path, env, cwd = entry
        whole = self.of_file(entry, [os.path.basename(path)])
        found = agent.run(whole.job(log, 120, flags=["--collect-only"]))
        groups = {}
        for node in found.get("items", []):
            groups.setdefault(group_of(name.partition(".")[0], node),
                              []).append(node)
        return [self.of_file(entry, nodes, f"{name}::{group}")
                for group, nodes in groups.items()]

    def of_file(self, entry, nodes, unit_name=None):
        name, path, env, cwd = entry
        unit = Unit(unit_name or name, env, cwd,
                    os.path.relpath(path, self.copy.tree), nodes=nodes)
        unit.path = path
        return unit

    def digest_of(self, unit):
        path = os.path.join(self.copy.tree, unit.source)
        return digest(path) if unit.source else ""
