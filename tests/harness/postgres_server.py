"""A real PostgreSQL server in a scratch directory, on a free port.

`initdb` refuses root, so as root it runs as the user postgres (Debian's package
makes it), else nobody.
"""

import atexit
import functools
import glob
import os
import shutil
import subprocess

from .database_server import DatabaseServer, run, scratch, user

CONFIG = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{dir}'
max_connections = 200
shared_buffers = 16MB
max_wal_size = 64MB
log_line_prefix = '%m %p %q%u@%d '
log_min_messages = notice
"""
# Who has a password must give it; everybody else is trusted.
HBA = """
{more}
host all +locked 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""
USERS = ("postgres", "nobody")


@functools.lru_cache(maxsize=None)
def programs():
    """The folder of initdb and postgres, the newest; None: there is none."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    found += [path for path in [shutil.which("initdb")] if path]
    found = [os.path.dirname(path) for path in found
             if os.path.exists(os.path.join(os.path.dirname(path), "postgres"))]
    return max(found, key=lambda path: [int(part) for part in path.split("/")
                                        if part.isdigit()], default=None)


def postgres_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if programs() is None or shutil.which("psql") is None:
        return ("PostgreSQL is not installed (Debian: apt install"
                " postgresql-15)")
    return ""


@functools.lru_cache(maxsize=None)
def _made():
    """A cluster as initdb makes it, once a run; servers begin with a copy."""
    path = scratch("snib-postgres-made-", user(*USERS))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    run([os.path.join(programs(), "initdb"), "-D", path + "/data", "-U",
         "admin", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
        cwd=path, **user(*USERS))
    return path + "/data"


class PostgresServer(DatabaseServer):
    """config: lines added to CONFIG; hba: lines in front of HBA."""
    what, users = "postgres", USERS

    def __init__(self, config=(), hba=(), start=True):
        self.hba = list(hba)
        super().__init__(config, start)

    def made(self):
        return _made()

    def make(self):
        self.psql("CREATE ROLE locked", "CREATE ROLE snib LOGIN",
                  "CREATE DATABASE snib OWNER snib", database="postgres")

    def command(self):
        with open(self.data + "/postgresql.conf", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(port=self.port, dir=self.dir))
            file.writelines(line + "\n" for line in self.config)
        with open(self.data + "/pg_hba.conf", "w", encoding="utf-8") as file:
            file.write(HBA.format(more="\n".join(self.hba)))
        return [os.path.join(programs(), "postgres"), "-D", self.data]

    def answers(self):
        return subprocess.run(
            [os.path.join(programs(), "pg_isready"), "-q", "-h", self.dir, "-p",
             str(self.port)], check=False).returncode == 0

    @property
    def url(self):
        return f"postgres://snib@127.0.0.1:{self.port}/snib"

    @property
    def unix_url(self):
        return (f"postgres://snib@/snib?socket={self.dir}&port={self.port}")

    def psql(self, *statements, database="snib", user="admin", check=True):
        """What they answer, a line a row, '|' between columns."""
        argv = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.dir, "-p",
                str(self.port), "-U", user, "-d", database]
        for one in statements:
            argv += ["-c", one]
        done = subprocess.run(argv, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout.strip()
