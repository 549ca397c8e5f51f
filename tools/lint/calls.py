"""Who calls whom, from the compiler's call graph (gcc -fcallgraph-info): circles
of files.

Two files are in a circle when each reaches the other by calls. A circle of more
than two files is no set of modules: whoever reads one of them needs all. Calls
through a table of functions (a store's, a callback) are no edges, since they are
the seams on purpose. A function in a header counts as a part of its callers.
Nor does a folder call one above it, which arrows.py knows.

tools/lint/limits.tsv has what the tree has today where that is above the goal.
These limits only go down: a circle that has become smaller fails the rule until
its limit is lowered, too.

    python3 tools/lint/calls.py        the circles, with the calls that close them
"""

import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from arrows import MAY, layer_of
from tree import Finding, Skip

# The goal: so many files in the largest circle of a folder.
GOALS = {"src": 2, "sim": 3}
LIMITS = "tools/lint/limits.tsv"
FLAGS = ["-std=gnu11", "-O0", "-w", "-S", "-fcallgraph-info", "-D_GNU_SOURCE=",
         "-DSNIB_WITH_REDIS=1", "-DSNIB_WITH_TLS=1",
         "-DSNIB_WITH_POSTGRES=1", "-DSNIB_WITH_MYSQL=1",
         "-DSNIB_WITH_ETCD=1", "-DSNIB_WITH_ZOOKEEPER=1",
         "-DSNIB_WITH_RABBITMQ=1", "-Iinclude", "-Isrc",
         "-I/usr/include/postgresql", "-I/usr/include/mariadb",
         "-Isim", "-Isim/server", "-I."]
NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?\\n([^":]+):\d+')
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)" '
                  r'label: "([^"]*)"')


def _compile(tree, path, folder, more):
    base = os.path.join(folder, path.replace("/", "__")[:-2])
    done = subprocess.run(
        ["gcc", *FLAGS, *more, "-dumpbase", "", "-dumpdir", base + "-",
         "-o", base + ".s", path], cwd=tree.root, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise Skip(f"{path} does not compile alone: "
                   f"{done.stdout.strip().splitlines()[-1]}")
    for name in os.listdir(folder):
        if name.startswith(os.path.basename(base) + "-") and \
                name.endswith(".ci"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return path, file.read()
    raise Skip("this compiler writes no call graph")


class Graph:
    """defined: function -> file; calls: (caller, callee, where)."""

    def __init__(self, tree, folders, more=()):
        self.defined, self.calls = {}, []
        paths = [p for p in tree.c_files(*folders, ends=(".c",))]
        with tempfile.TemporaryDirectory() as folder:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                found = list(pool.map(
                    lambda path: _compile(tree, path, folder, more), paths))
        for path, text in found:
            self._read(path, text)

    def _read(self, path, text):
        inlines, edges = set(), []
        # Each program has a main of its own.
        text = re.sub(r'(title|sourcename): "main"', rf'\1: "{path}:main"', text)
        for line in text.splitlines():
            node = NODE.match(line)
            if node and "ellipse" not in line:
                if node[2].endswith(".h"):
                    inlines.add(node[1])
                else:
                    self.defined[node[1]] = path
            edge = EDGE.match(line)
            if edge:
                edges.append(edge.groups())
        of = collections.defaultdict(list)
        for caller, callee, where in edges:
            of[caller].append((callee, where))

        def through(name, seen):
            """What name calls; what a header's function calls is its own."""
            for callee, where in of[name]:
                if callee in inlines:
                    if callee not in seen:
                        yield from through(callee, seen | {callee})
                else:
                    yield callee, where

        for caller in list(of):
            if caller not in inlines:
                self.calls += [(caller, callee, where)
                               for callee, where in through(caller, {caller})]

    def files(self):
        """{file: {file that it calls: [(caller, callee), …]}}"""
        out = collections.defaultdict(lambda: collections.defaultdict(list))
        for caller, callee, _ in self.calls:
            a, b = self.defined.get(caller), self.defined.get(callee)
            if a and b and a != b:
                out[a][b].append((caller, callee))
        return out


def circles(edges):
    """Sets of files that reach each other, larger ones first (Tarjan)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            at, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(sorted(edges.get(to, ())))))
                    break
                if to in on:
                    low[at] = min(low[at], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    circle = set()
                    while at not in circle:
                        circle.add(stack.pop())
                    on.difference_update(circle)
                    if len(circle) > 1:
                        found.append(sorted(circle))

    for file in sorted(edges):
        if file not in index:
            visit(file)
    return sorted(found, key=len, reverse=True)


def _upwards(edges):
    """Calls into a folder that the caller's may not know. (The command line
    includes public headers only, and may call what stands there.)"""
    for a in sorted(edges):
        may = MAY.get(layer_of(a))
        for b in sorted(edges[a]):
            if may and layer_of(a) != "cli" and layer_of(b) not in may:
                caller, callee = sorted(edges[a][b])[0]
                yield Finding(f"{a}:1: {caller} calls up, to {callee} of {b}")


def _graphs(tree):
    """(folder, its graph), of what is there."""
    with tempfile.TemporaryDirectory() as folder:
        script = tree.path("src/store/redis/embed.cmake")
        if os.path.exists(script):
            subprocess.run(["cmake", f"-DOUT={folder}", "-P", script],
                           cwd=tree.root, stdout=subprocess.DEVNULL,
                           check=True)
        lua = ["-I/usr/include/lua5.1"]
        for name in GOALS:
            if os.path.isdir(tree.path(name)):
                yield name, Graph(tree, (name,), [f"-I{folder}", *lua])


def _limits(tree):
    """{folder: files in a circle}, and those that are written down."""
    written = {}
    if os.path.exists(tree.path(LIMITS)):
        for line in tree.read(LIMITS).splitlines():
            if line.startswith("calls\t"):
                _, folder, number = line.split("\t")
                written[folder] = int(number)
    return {**GOALS, **written}, written


def calls(tree):
    """No circle of calls has more files than it may, and none goes up."""
    if subprocess.run(["gcc", "--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("gcc is not installed")
    limits, written = _limits(tree)
    for name, graph in _graphs(tree):
        edges = graph.files()
        yield from _upwards(edges)
        found = circles(edges)
        most = len(found[0]) if found else 1
        if most > limits[name]:
            yield Finding(f"{name}:1: {most} files call each other in a "
                          f"circle, at most {limits[name]} may: "
                          f"{' '.join(found[0])}")
        elif name in written and max(most, GOALS[name]) < limits[name]:
            yield Finding(f"{LIMITS}:1: the largest circle of {name} has "
                          f"{most} files; lower its limit, {limits[name]}")


def main():
    from tree import Tree
    tree = Tree(os.path.join(os.path.dirname(__file__), "..", ".."))
    for name, graph in _graphs(tree):
        edges = graph.files()
        found = circles(edges)
        print(f"{name}: {len(graph.defined)} functions, "
              f"{len(set(graph.defined.values()))} files, "
              f"circles of {[len(c) for c in found]} files")
        for circle in found:
            print(f"  {len(circle)}: {' '.join(circle)}")
            for a in circle:
                for b in sorted(set(edges[a]) & set(circle)):
                    pairs = sorted({callee for _, callee in edges[a][b]})
                    print(f"    {a} -> {b}: {' '.join(pairs[:6])}"
                          f"{' …' if len(pairs) > 6 else ''}")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
