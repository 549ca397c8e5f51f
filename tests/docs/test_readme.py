"""Every snippet of README.md that is marked with `<!-- run: … -->` runs."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- run: ([a-z ]+) -->\n```\w+\n(.*?)```", re.S)
BLOCKS = [found for found in BLOCK.findall((ROOT / "README.md").read_text())
          if found[0] != "prefix"]
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ROOT / "build" / "dev"))


def env_with(tmp_path, url):
    binary = os.environ.get("SNIB_BIN") or shutil.which("snib")
    if not binary:
        pytest.skip("no snib binary: set SNIB_BIN")
    env = dict(os.environ, SNIB_URL=url)
    env["PATH"] = f"{pathlib.Path(binary).parent}:{env['PATH']}"
    return env


def shell(text, env, tmp_path):
    done = subprocess.run(
        ["bash", "-c", text], env=env, cwd=tmp_path, timeout=60,
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_readme_has_all_its_snippets():
    assert [kind for kind, _ in BLOCKS] == ["sh", "sh", "sh", "sh redis", "c",
                                         "c redis"]


def test_first_start_without_a_server(tmp_path):
    env = env_with(tmp_path, f"file:{tmp_path}/locks.db")
    assert "only one of me" in shell(BLOCKS[0][1], env, tmp_path)


def test_the_second_waits_and_gives_up_with_75(tmp_path):
    env = env_with(tmp_path, f"file:{tmp_path}/locks.db")
    out = shell(BLOCKS[1][1], env, tmp_path)
    assert "exit 75" in out and "never printed" not in out
    assert "nightly" in out


def test_more_than_one_at_a_time(tmp_path):
    env = env_with(tmp_path, f"file:{tmp_path}/locks.db")
    out = shell(BLOCKS[2][1], env, tmp_path).splitlines()
    assert out[:3] == ["with other readers", "alone",
                       "never more than three at once"]
    assert out[3] == "builds: 0 of 3 permits in use, 3 available"
    assert out[4:] == ["loaded: closed, 2 steps to go", "loaded: open",
                       "both, or none"]


def test_the_same_on_redis(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    from harness.redis_server import RedisServer
    with RedisServer() as server:
        env = env_with(tmp_path, "")
        text = BLOCKS[3][1].replace("127.0.0.1:6379",
                                    f"127.0.0.1:{server.port}")
        out = shell(text, env, tmp_path)
        assert re.search(r"^token [1-9]\d*$", out, re.M)


def build_hello(tmp_path, text=BLOCKS[4][1]):
    """The program and its environment."""
    source = tmp_path / "hello.c"
    source.write_text(text)
    library = next(BUILD.rglob("libsnib.so"), None)
    if library is None:
        pytest.skip(f"no libsnib.so under {BUILD}")
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", source,
         "-L", library.parent, "-lsnib", "-o", tmp_path / "hello"],
        check=True)
    return tmp_path / "hello", dict(
        os.environ, SNIB_URL=f"file:{tmp_path}/locks.db",
        LD_LIBRARY_PATH=f"{library.parent}:"
        + os.environ.get("LD_LIBRARY_PATH", ""))


def test_c_in_20_lines(tmp_path):
    program, env = build_hello(tmp_path)
    assert len(BLOCKS[4][1].splitlines()) <= 23
    done = subprocess.run([program], env=env, timeout=20,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.match(r"mine, token \d+\n", done.stdout)


def test_the_c_program_says_when_it_did_not_get_the_lock(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    from harness.redis_server import RedisServer
    program, env = build_hello(tmp_path)
    with RedisServer(config=["requirepass geheim"]) as server:
        env["SNIB_URL"] = "redis://127.0.0.1:%d" % server.port
        done = subprocess.run([program], env=env, timeout=20,
                              capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("not mine: ")


def test_the_options_for_redis(tmp_path):
    """Of 1,000 sections most are entered without asking the server."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    witness = next(BUILD.rglob("snib-witness"), None)
    if witness is None:
        pytest.skip(f"no snib-witness under {BUILD}")
    from harness.redis_server import RedisServer
    with RedisServer() as server:
        text = BLOCKS[5][1].replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
        text = text.replace("    o.witness = true;", "    o.witness = true;\n"
                            f'    o.witness_program = "{witness}";')
        program, env = build_hello(tmp_path, text)
        done = subprocess.run([program], env=env, timeout=60,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        asked = server.command("INFO", "stats").split(
            b"total_commands_processed:")[1].split()[0]
        assert int(asked) < 1000, asked


# A URL of the table that helps to choose, and the line of the promises that it
# stands for.
CHOICES = {"file:/PATH": "`file:` on this host",
           "redis://HOST?recovery=30s": "Redis with [`?recovery=30s`]",
           "redis+sentinel://S1,S2,S3/SERVICE?recovery=30s":
               "alone or with replicas, any persistence",
           "redis+sentinel://S1,S2,S3/SERVICE?recovery=30s&replicas=1":
               "though the old primary goes on",
           "redlock://H1,H2,H3": "`redlock:` a majority of 3",
           "redis+cluster://H1,H2,H3": "Redis Cluster (`redis+cluster:`)",
           "postgres://USER@HOST/DB": "PostgreSQL alone, grants durable",
           "mysql://USER@HOST/DB": "MariaDB alone, flushed at each commit",
           "etcd://H1,H2,H3": "etcd, three or five members",
           "zookeeper://H1,H2,H3": "\n| ZooKeeper |",
           "amqp://HOST": "RabbitMQ, one node",
           "memory:NAME": "`memory:` (tests of one process)"}


def test_each_store_to_choose_is_promised_something():
    text = (ROOT / "README.md").read_text()
    choose = text.partition("\n## Which store\n")[2].partition("\n## ")[0]
    promised = text.partition("\n## What is promised where\n")[2]
    named = re.findall(r"`(\w[\w+]*:[^`]*)`", "".join(
        line.split("|")[2] for line in choose.splitlines()
        if line.startswith("| ")))
    assert sorted(named) == sorted(CHOICES)
    for url, line in CHOICES.items():
        assert line in promised, url


def test_each_store_has_its_row_among_those_to_choose(tmp_path):
    """Those that the command names where it does not know a scheme."""
    said = subprocess.run(["snib", "try", "n"], capture_output=True, text=True,
                          env=env_with(tmp_path, "gopher://x")).stderr
    known = set(re.findall(r"(\w+):", said.partition("expected ")[2]))
    assert {"file", "redis"} <= known
    assert {url.partition(":")[0] for url in CHOICES} >= known


def test_without_root_all_of_it_is_found_under_a_prefix(tmp_path):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"no build to install under {BUILD}")
    (text,) = [text for kind, text in BLOCK.findall(
        (ROOT / "README.md").read_text()) if kind == "prefix"]
    assert "build/release" in text
    text = text.replace("build/release", f'"{BUILD}"') + """
command -v snib
pkg-config --variable=prefix snib
printf '#include <snib.h>\nint main(void) { return !snib_version(); }\n' >a.c
cc a.c $(pkg-config --cflags --libs snib) && ./a.out && echo linked
"""
    if shutil.which("manpath"):
        text += "manpath\n"
    env = dict(os.environ, HOME=str(tmp_path))
    for name in "PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "MANPATH":
        env.pop(name, None)
    out = shell("set -e\n" + text, env, tmp_path).splitlines()
    prefix = f"{tmp_path}/.local"
    assert f"{prefix}/bin/snib" in out and "linked" in out
    assert prefix in [os.path.realpath(line) for line in out]
    if shutil.which("manpath"):
        assert out[-1].startswith(f"{prefix}/share/man:")
    assert (tmp_path / ".local/share/man/man1/snib.1").exists()


def test_links_of_installed_pages_lead_somewhere(tmp_path):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"no build to install under {BUILD}")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path],
                   check=True, capture_output=True, timeout=120)
    here = next(tmp_path.rglob("snib/README.md")).parent
    dead, links = [], 0
    for page in [*here.glob("*.md"), *here.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not re.match(r"[a-z]+:", link):
                links += 1
                if not (page.parent / link).exists():
                    dead.append((page.name, link))
    assert dead == [] and links > 50
    # Nothing else was changed.
    text = (here / "README.md").read_text()
    assert len(text.splitlines()) == len(
        (ROOT / "README.md").read_text().splitlines())


# Where it is promised, what it does not hold for.
EXCEPT = [
    ("README.md", "in the order of arrival",
     "threads of one client share the client's position"),
    ("include/snib.h", "first come first served.",
     "threads of one client share the client's position"),
    ("README.md", 'ask `snib check "$SNIB_GRANT"`', "after a forced release"),
    ("docs/man/snib-check.1", "is asked, never a file",
     "After .Xr snib-force-release 1"),
]


@pytest.mark.parametrize("page, promise, exception", EXCEPT)
def test_an_exception_stands_beside_its_promise(page, promise, exception):
    text = " ".join((ROOT / page).read_text().replace("\n *", " ").split())
    assert promise in text
    behind = text[text.index(promise):][:500]
    assert exception in behind, behind


@pytest.mark.parametrize("word", ["store", "client", "owner", "lease", "grant",
                                  "fenc", "holder", "supervisor"])
def test_a_word_is_explained_where_it_is_used_first(word):
    """In the sentence where it stands between stars."""
    text = (ROOT / "README.md").read_text()
    first = re.search(rf"\b{word}", text, re.I).start()
    told = re.search(rf"\*{word}\w*( token| process)?\*", text)
    assert told and told.start() + 1 == first, text[first - 60:first + 40]


@pytest.mark.parametrize("topic", [[], ["run"]])
def test_help_needs_no_man(tmp_path, topic):
    """README names it for machines where there is no man."""
    said = "`snib help" + "".join(f" {t}" for t in topic) + "`"
    text = (ROOT / "README.md").read_text()
    assert "`man snib`" in text and said in text
    env = env_with(tmp_path, f"file:{tmp_path}/locks.db")
    binary = shutil.which("snib", path=env["PATH"])
    done = subprocess.run([binary, "help", *topic], timeout=60, text=True,
                          capture_output=True, env={"PATH": "/nonexistent"})
    assert done.returncode == 0 and "Usage: snib" in done.stdout, done
