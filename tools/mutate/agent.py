"""Runs tests of mutants, one at a time, where they can do no harm.

A mutant may call kill(-1, SIGKILL), write anywhere, never end. So this
process is the first of a PID namespace of its own, with its own network, /proc
and /tmp (see start()); after each test everything else in there is killed.
It has loaded pytest once and forks for each run.

Reads jobs and writes results as lines of JSON."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

# When the tool ends, unshare does, and takes the namespace along.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork",
              "--kill-child", "--mount-proc"]
MEMORY = 6 << 30
FILE = 1 << 30


class Watch:
    """A pytest plugin: limits, results and what each case reaches."""

    def __init__(self, job):
        self.job, self.results, self.items = job, {}, []
        self.reach = {}

    def pytest_collection_modifyitems(self, items):
        self.items = [item.nodeid for item in items]

    def pytest_runtest_setup(self, item):
        limits = self.job.get("limits", {})
        limit = limits.get(item.nodeid, self.job.get("case_limit", 0))
        if limit:
            signal.signal(signal.SIGALRM, too_late)
            signal.setitimer(signal.ITIMER_REAL, limit, 1)
        if self.job.get("places") and "reach" not in self.job:
            path = os.path.join(tempfile.gettempdir(),
                                f"reach-{len(self.reach)}")
            new_reach(path, self.job["places"])
            self.reach[item.nodeid] = path
            os.environ["MUTANT_REACH"] = path

    def pytest_runtest_logreport(self, report):
        was = self.results.get(report.nodeid, ["passed", 0, ""])
        word = was[0]
        if report.failed:
            word = "failed"
        elif report.skipped and word != "failed":
            word = "skipped"
        text = was[2]
        if report.failed and not text:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(crash.message if crash else report.longrepr)[:400]
        self.results[report.nodeid] = [word, was[1] + report.duration, text]
        if report.when == "teardown":
            signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_collectreport(self, report):
        if report.failed:
            self.results[report.nodeid or "collection"] = [
                "failed", 0, str(report.longrepr)[:400]]


def too_late(*_):
    raise TimeoutError("took much longer than without the mutant")


def new_reach(path, places):
    with open(path, "wb") as file:
        file.truncate(places)


def reached(path):
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], data.find(1)
    while at >= 0:
        found.append(at)
        at = data.find(1, at + 1)
    return found


def child(job, answer):
    """In the forked process: becomes the test."""
    os.setsid()
    if not job.get("sanitized"):  # its shadow has an address for each byte
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    log = os.open(job["log"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    null = os.open("/dev/null", os.O_RDONLY)
    for fd, to in ((null, 0), (log, 1), (log, 2)):
        os.dup2(fd, to)
    os.environ.update(job["env"])
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.chdir(job["cwd"])
    for number in range(1, 32):
        # As a shell starts it; nohup leaves SIGHUP ignored.
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    if "pytest" in job:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    else:
        os.execvp(job["argv"][0], job["argv"])
    import pytest
    sys.path[:0] = [p for p in job["env"].get("PYTHONPATH", "").split(":")
                    if p]
    watch = Watch(job)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", "-rN",
                        "--no-header", *job["pytest"]], plugins=[watch])
    with open(answer, "w", encoding="utf-8") as file:
        json.dump({"results": watch.results, "items": watch.items,
                   "reached": {k: reached(v) for k, v in
                               watch.reach.items()}}, file)
    sys.stdout.flush()
    os._exit(int(code))


class TooLong(Exception):
    pass


def alarm(*_):
    raise TooLong


def wait_for(pid, limit):
    """(status, timed out); reaps whoever else ends, as pid 1 must."""
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == pid:
                return os.waitstatus_to_exitcode(status), False
    except TooLong:
        return -signal.SIGKILL, True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def sweep():
    """Whatever the test left: processes, files."""
    if os.getpid() != 1:
        return
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    folder = tempfile.gettempdir()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def run(job):
    answer = os.path.join(tempfile.gettempdir(), "answer.json")
    one = job.get("places") and "argv" in job
    if one or "reach" in job:
        path = os.path.join(tempfile.gettempdir(), "reach")
        new_reach(path, job["places"])
        job["env"]["MUTANT_REACH"] = job["reach"] = path
    for at, to in job.get("binds", []):
        subprocess.run(["mount", "--bind", at, to], check=True)
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            child(job, answer)
        except BaseException as why:  # told, and never back into the loop
            print("agent:", repr(why), flush=True)
        finally:
            os._exit(70)
    status, timed_out = wait_for(pid, job["limit"])
    found = {"status": status, "timed_out": timed_out,
             "seconds": time.monotonic() - began, "results": {}}
    try:
        with open(answer, encoding="utf-8") as file:
            found.update(json.load(file))
    except (OSError, ValueError):
        pass
    if job.get("reach"):
        found["reached"] = {"": reached(job["reach"])}
    sweep()
    for _, to in job.get("binds", []):
        subprocess.run(["umount", to], check=False)
    return found


def serve():
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.set_inheritable(jobs.fileno(), False)
    os.set_inheritable(said.fileno(), False)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep = sys.argv[1]
    if os.getpid() == 1:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
        if not keep.startswith("/tmp/"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "none",
                            "/tmp"], check=True)
            os.chmod("/tmp", 0o1777)
        # No name server here: a name is looked up in vain at once.
        if os.path.exists("/etc/resolv.conf"):
            subprocess.run(["mount", "--bind", "/dev/null",
                            "/etc/resolv.conf"], check=False)
    folder = tempfile.mkdtemp(prefix="mutant-")
    os.environ.update({"TMPDIR": folder, "HOME": folder,
                       "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder,
                       "PYTHONDONTWRITEBYTECODE": "1"})
    tempfile.tempdir = folder
    import pytest  # noqa: F401, loaded once for all runs
    for line in jobs:
        said.write(json.dumps(run(json.loads(line))) + "\n")
        said.flush()


class Agent:
    """The other end, in the tool."""

    def __init__(self, python, root):
        self.child = subprocess.Popen(
            [*WITH_PARENT, *namespaces(), python, __file__, str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True)

    def run(self, job):
        self.child.stdin.write(json.dumps(job) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError("the process that runs the tests has ended")
        return json.loads(line)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def namespaces():
    return NAMESPACES if os.geteuid() == 0 else [
        *NAMESPACES[:1], "--user", "--map-root-user", *NAMESPACES[1:]]


def can_be_apart():
    return subprocess.run([*WITH_PARENT, *namespaces(), "true"],
                          capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    serve()
