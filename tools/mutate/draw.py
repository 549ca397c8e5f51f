"""All mutants of a tree, numbered; which are drawn; those that compile."""
import hashlib
import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess

import rules_c
import rules_lua
import splice
from built import arguments_of, tracked
from mutant import key_of

RULES = ["operator", "constant", "condition", "call", "assignment",
         "transition", "lock", "code", "return", "jump", "exchange",
         "argument"]


def of_file(task):
    path, root, arguments = task
    if path.endswith(".lua"):
        with open(os.path.join(root, path), "rb") as file:
            return rules_lua.mutants_of(path, file.read())
    return rules_c.mutants_of(path, root, arguments)


def plain_worker():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # the tool's own speak


def sources(root):
    return [p for p in tracked(root)
            if re.match(r"^src/.*\.[ch]$|^src/store/redis/scripts/.*\.lua$",
                        p)]


def digest_of_headers(root):
    shared = hashlib.sha1()
    for path in tracked(root):
        if path.endswith(".h"):
            with open(os.path.join(root, path), "rb") as file:
                shared.update(file.read())
    return shared.digest()


def enumerate_all(root, known, jobs, cache):
    """Every mutant, numbered from 1 in the order of files and places. What
    was found in a file is kept until it, or a header, or a rule changes."""
    paths = sorted(sources(root), key=lambda p: (p.endswith(".lua"), p))
    shared = hashlib.sha1(digest_of_headers(root))
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(here)):
        if name.startswith(("rules", "mutant.")):
            with open(os.path.join(here, name), "rb") as file:
                shared.update(file.read())
    kept, found, tasks = {}, {}, []
    try:
        with open(cache, "rb") as file:
            kept = pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError):
        pass
    for path in paths:
        arguments = arguments_of(path, known)
        with open(os.path.join(root, path), "rb") as file:
            key = hashlib.sha1(shared.digest() + file.read() +
                               " ".join(arguments).encode()).hexdigest()
        if path in kept and kept[path][0] == key:
            found[path] = kept[path]
        else:
            tasks.append((path, root, arguments))
            found[path] = (key, None)
    if tasks:
        pool = multiprocessing.Pool(jobs, initializer=plain_worker)
        for task, mutants in zip(tasks, pool.imap(of_file, tasks)):
            found[task[0]] = (found[task[0]][0], mutants)
        pool.close()
        pool.join()
    os.makedirs(os.path.dirname(cache), exist_ok=True)
    with open(cache, "wb") as file:
        pickle.dump(found, file)
    mutants = [m for path in paths for m in found[path][1]]
    alike = {}
    for number, mutant in enumerate(mutants, 1):
        mutant.number, mutant.nth = number, 1
        mutant.nth = alike[mutant.mark] = alike.get(mutant.mark, 0) + 1
    return mutants


def keys_of(root, mutants):
    """{(path, start, end, is a jump): key by content}, in order."""
    found, counts, texts = {}, {}, {}
    for mutant in mutants:
        if mutant.path.endswith(".lua"):
            continue
        if mutant.path not in texts:
            with open(os.path.join(root, mutant.path), "rb") as file:
                texts[mutant.path] = file.read()
        edit = mutant.edits[0]
        place = (mutant.path, edit.start, edit.end, edit.form == "jump")
        if place in found:
            continue
        text = texts[mutant.path][edit.start:edit.end].decode()
        same = mutant.path, mutant.function, text, place[3]
        counts[same] = counts.get(same, 0) + 1
        found[place] = (key_of(mutant.path, mutant.function, text,
                               (counts[same], place[3])),
                        (mutant.path, mutant.function))
    return found


def changed_lines(root, revision):
    """{path: lines that are not in the revision}."""
    done = subprocess.run(
        ["git", "diff", "-U0", "--no-color", "--no-ext-diff", revision, "--",
         "src"], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"mutate: --diff {revision}: {done.stderr.strip()}")
    lines, path = {}, None
    for line in done.stdout.splitlines():
        if line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
        hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if hunk:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    new = subprocess.run(
        ["git", "ls-files", "-o", "--exclude-standard", "src"], cwd=root,
        capture_output=True, text=True, check=True).stdout.split()
    for path in new:
        with open(os.path.join(root, path), "rb") as file:
            lines[path] = set(range(1, file.read().count(b"\n") + 2))
    return lines


def seed_of(root):
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root,
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()[:12]


def shuffled(mutants, seed):
    """One mutant of each place and rule, in the order of a draw."""
    dice, places = random.Random(seed), {}
    for mutant in mutants:
        places.setdefault(mutant.place, []).append(mutant)
    order = list(places.values())
    dice.shuffle(order)
    return [dice.choice(group) for group in order]


def lua_compiles(text):
    done = subprocess.run(["luac5.1", "-p", "-"], input=text,
                          capture_output=True)
    return done.returncode == 0


class Sample:
    """Drawn mutants and the files that hold them."""

    def __init__(self, root, known, scratch):
        self.root, self.known, self.scratch = root, known, scratch
        self.mutants, self.dropped, self.files = [], 0, {}

    def source(self, path):
        with open(os.path.join(self.root, path), "rb") as file:
            return file.read()

    def draw(self, order, count):
        """The first that compile. A compiler is asked once for each file in
        each round; the second round is for the place of what it dropped."""
        os.makedirs(self.scratch, exist_ok=True)
        order, self.mutants = list(order), []
        while order and len(self.mutants) < count:
            more = order[:count - len(self.mutants)]
            del order[:len(more)]
            self.mutants += more
            bad = set()
            for path in sorted({m.path for m in more}):
                mine = [m for m in self.mutants if m.path == path]
                bad |= self.check(path, mine)
            self.dropped += len(bad)
            self.mutants = [m for m in self.mutants if m.number not in bad]
        return self.mutants

    def check(self, path, mutants):
        from mutant import patched
        source = self.source(path)
        if path.endswith(".lua"):
            return {m.number for m in mutants
                    if not lua_compiles(patched(source, m))}
        text, dropped = splice.compiled(
            source, mutants, os.path.join(self.root, path),
            arguments_of(path, self.known), self.scratch)
        self.files[path] = text.encode()
        return dropped
