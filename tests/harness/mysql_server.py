"""A real MariaDB server in a scratch directory, on a free port.

It refuses root, so as root it runs as the user mysql (Debian's package makes
it), else nobody.
"""

import atexit
import functools
import os
import shutil
import signal
import subprocess

from .database_server import DatabaseServer, run, scratch, user

USERS = ("mysql", "nobody")
# Small, and deaf to what the machine's own configuration says. A server that
# starts removes what looks like another one's in the folder for temporary
# files, so each has its own.
OPTIONS = ["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve",
           "--max-connections=300", "--innodb-buffer-pool-size=16M",
           "--innodb-log-file-size=8M", "--character-set-server=latin1"]


def mysql_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if os.environ.get("SNIB_QUICK"):
        return "not in a quick run, where PostgreSQL stands for the databases"
    if not all(map(_program, ("mariadbd", "mariadb", "mariadb-install-db"))):
        return "MariaDB is not installed (Debian: apt install mariadb-server)"
    return ""


def _program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") +
                        ":/usr/sbin:/usr/bin:/usr/local/sbin")


@functools.lru_cache(maxsize=None)
def _made():
    """Data as mariadb-install-db makes them, once a run; servers begin with a
    copy."""
    path = scratch("snib-mysql-made-", user(*USERS))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    run([_program("mariadb-install-db"), "--no-defaults",
         "--datadir=" + path + "/data", "--tmpdir=" + path,
         "--auth-root-authentication-method=normal", "--skip-test-db",
         "--innodb-log-file-size=8M"], cwd=path, **user(*USERS))
    return path + "/data"


class MysqlServer(DatabaseServer):
    """config: options of mariadbd."""
    what, users, stop_signal = "mysql", USERS, signal.SIGTERM

    def made(self):
        return _made()

    def make(self):
        self.sql("CREATE DATABASE snib", "CREATE USER snib@'%'",
                 "GRANT ALL ON snib.* TO snib@'%'", database="mysql")

    def command(self):
        return [_program("mariadbd"), *OPTIONS, f"--datadir={self.data}",
                f"--tmpdir={self.dir}", f"--port={self.port}",
                f"--socket={self.socket}",
                f"--pid-file={self.dir}/pid", *self.config]

    def answers(self):
        return subprocess.run(
            [_program("mariadb"), "--no-defaults", "-S", self.socket, "-u",
             "root", "-e", "DO 1"], check=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL).returncode == 0

    @property
    def socket(self):
        return self.dir + "/socket"

    @property
    def url(self):
        return f"mysql://snib@127.0.0.1:{self.port}/snib"

    @property
    def unix_url(self):
        return f"mysql://snib@/snib?socket={self.socket}"

    def sql(self, *statements, database="snib", user="root", check=True):
        """What they answer, a line a row, '|' between columns."""
        done = subprocess.run(
            [_program("mariadb"), "--no-defaults", "-BNr", "-S", self.socket,
             "-u", user, database], text=True, stdout=subprocess.PIPE,
            input=";\n".join(statements) + ";\n", stderr=subprocess.STDOUT,
            check=False)
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout.strip().replace("\t", "|")
