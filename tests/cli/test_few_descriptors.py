"""A process that may open few files (ulimit -n): it says that this is so and what
to do, whatever it was about to open, and blames neither server nor URL."""

import resource

import pytest

from conftest import Snib

URLS = {
    "file": "file:{}/locks.db",
    "redis": "redis://127.0.0.1:1",
    "a name": "redis://localhost:1",
    "sentinel": "redis+sentinel://127.0.0.1:1,127.0.0.1:2/s",
    "postgres": "postgres://u@127.0.0.1:1/x",
    "mysql": "mysql://u@127.0.0.1:1/x",
    "etcd": "etcd://127.0.0.1:1",
    "zookeeper": "zookeeper://127.0.0.1:1",
    "rabbitmq": "amqp://127.0.0.1:1",
}
COMMANDS = {
    "run": ["run", "-q", "-w", "100ms", "--name=n", "--", "true"],
    "acquire": ["-q", "-w", "100ms"],
    "try": ["try", "-q", "n"],
    "status": ["status", "n"],
}
# With fewer the program does not start; with so many there are enough.
FEW = range(4, 18)


@pytest.fixture(params=URLS)
def snib(request, snib_bin, tmp_path):
    one = Snib(snib_bin, URLS[request.param].format(tmp_path), str(tmp_path))
    if one.run("try", "n").returncode == 78:
        pytest.skip(f"{request.param} is not in this build")
    yield one
    one.end()


@pytest.mark.parametrize("command", COMMANDS)
def test_who_may_open_few_files_is_told_so(snib, command):
    words, lacked = COMMANDS[command], 0
    for n in FEW:
        few = {"preexec_fn": lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (n, n))}
        done = (snib.acquire(*words, f"n{n}", **few) if command == "acquire"
                else snib.run(*words, **few))
        said = done.stderr
        if done.returncode == 70:
            lacked += 1
            assert "ulimit -n" in said, (n, said)
            assert "is the URL right" not in said, (n, said)
        else:  # there were enough, if not always time to be refused
            assert done.returncode in (0, 69, 75), (n, said)
            assert done.returncode == 0 or any(
                words in said for words in
                ("efused", "111", "within the time allowed", "did not answer")
            ), (n, said)
            assert "escriptor" not in said and "open files" not in said
    assert lacked > 0
