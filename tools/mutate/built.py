"""A copy of the tree in build/mutate, with some files changed, and its build.

The tests run in the copy as they do in the tree: they find their programs,
scripts and pages beside them. Only what differs is written, so that a build
after the first costs what changed."""
import json
import os
import shlex
import shutil
import subprocess

CONFIGURE = ["-G", "Ninja", "-DCMAKE_C_COMPILER=clang",
             "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
             "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1",
             "-DCMAKE_C_FLAGS=-w", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]


# How the gate (./dev test) runs what it builds with sanitizers.
PRESET = "asan"
SANITIZED = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1"}


class BuildFailed(Exception):
    pass


def preset_of(tree):
    """What cmake is told for the gate's build with AddressSanitizer and
    UBSan; nothing, where there is no such build."""
    try:
        with open(os.path.join(tree, "CMakePresets.json"),
                  encoding="utf-8") as file:
            presets = json.load(file)["configurePresets"]
    except FileNotFoundError:
        return []
    return [f"-D{name}={value}" for preset in presets
            if preset["name"] == PRESET
            for name, value in preset["cacheVariables"].items()]


def tracked(root):
    """What git knows of the tree, and what is new and not ignored; of a copy
    all there is."""
    if not os.path.exists(os.path.join(root, ".git")):
        return sorted(os.path.relpath(os.path.join(folder, name), root)
                      for folder, _, names in os.walk(root)
                      for name in names if not name.endswith(".pyc"))
    done = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root,
        capture_output=True, text=True, check=True)
    return [p for p in done.stdout.split("\0")
            if p and os.path.isfile(os.path.join(root, p))]


def write(path, data):
    """Whether it was another."""
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return False
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return True


class Copy:
    def __init__(self, root, base, jobs=2):
        self.root, self.base, self.jobs = root, base, jobs
        self.tree = os.path.join(self.base, "tree")
        self.bin = os.path.join(self.base, "bin")
        self.flags, self.log = CONFIGURE, os.path.join(base, "build.log")

    def sanitized(self):
        """The same tree, built as the gate does with sanitizers; or None."""
        flags = preset_of(self.tree)
        if not flags:
            return None
        other = Copy(self.root, self.base, self.jobs)
        other.bin = os.path.join(self.base, PRESET)
        other.flags = CONFIGURE + flags
        other.log = os.path.join(self.base, f"build-{PRESET}.log")
        return other

    def sync(self, changed):
        """The tree as it is now, but for changed {path: bytes}."""
        paths = set(tracked(self.root)) | set(changed)
        for path in sorted(paths):
            to = os.path.join(self.tree, path)
            if path in changed:
                write(to, changed[path])
                continue
            at = os.path.join(self.root, path)
            with open(at, "rb") as file:
                write(to, file.read())
            shutil.copymode(at, to)
        for folder, _, names in os.walk(self.tree):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in paths and \
                        not name.endswith(".pyc"):
                    os.unlink(path)

    def run(self, *command):
        os.makedirs(self.base, exist_ok=True)
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            done = subprocess.run(command, stdout=log, stderr=log,
                                  stdin=subprocess.DEVNULL)
        if done.returncode:
            raise BuildFailed(f"{command[0]} failed: see {log.name}")

    def configure(self):
        if os.path.exists(self.log):
            os.unlink(self.log)
        self.run("cmake", "-S", self.tree, "-B", self.bin, *self.flags)

    def build(self, targets=()):
        """All of it, or these."""
        self.run("cmake", "--build", self.bin, "-j", str(self.jobs),
                 *(["--target", *targets] if targets else []))

    def arguments(self):
        """{path of a C file in the tree: how it is compiled}, with the folders
        of the original tree, for those who read and check files there."""
        with open(os.path.join(self.bin, "compile_commands.json"),
                  encoding="utf-8") as file:
            entries = json.load(file)
        found = {}
        for entry in entries:
            path = os.path.relpath(entry["file"], self.tree)
            words = shlex.split(entry["command"])
            kept, take = [], False
            for word in words[1:]:
                if take or word.startswith(("-I", "-D", "-std=")):
                    kept.append(word)
                    take = False
                elif word == "-isystem":
                    kept.append(word)
                    take = True
            found[path] = [w.replace(self.tree + os.sep, self.root + os.sep)
                           for w in kept]
        return found


def arguments_of(path, known):
    """A header is read as its neighbours are compiled."""
    if path in known:
        return known[path]
    folder = os.path.dirname(path)
    for other in sorted(known):
        if os.path.dirname(other) == folder:
            return known[other]
    return next((known[p] for p in sorted(known) if p.startswith("src/")), [])
