"""PostgreSQL and MariaDB, as their pairs need them: alone, with a clock that can be
set, with a standby (rig.py)."""

import contextlib
import os
import subprocess

from harness.database_server import run
from harness.mysql_server import MysqlServer, mysql_missing
from harness.postgres_server import (PostgresServer, postgres_missing,
                                     programs)
from harness.shim import Shim, ShimMissing, build_shim
from harness.wait import wait_until

from rig import Rig
from stores import Skip


@contextlib.contextmanager
def small_disk(folder, like, megabytes):
    """A disk of that size on the folder, which belongs to the user of `like`."""
    if os.geteuid() != 0:
        raise Skip("a disk of its own needs root")
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder],
        stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Skip(f"no tmpfs: {done.stderr.strip()}")
    entry = os.stat(like)
    os.chown(folder, entry.st_uid, entry.st_gid)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


class DatabaseRig(Rig):
    """What the two databases have in common."""
    def pids(self):
        return self.server.pids()

    def stop(self):
        self.server.stop()

    def log_says(self, words):
        return self.server.log().count(words)

    def save(self):
        """Copy the data as they are; the server is away for that."""
        self.server.stop()
        run(["cp", "-a", self.server.data, self.server.dir + "/saved"])
        self.server.start()

    def restore(self):
        run(["rm", "-rf", self.server.data])
        run(["mv", self.server.dir + "/saved", self.server.data])


class PostgresRig(DatabaseRig):
    name = "postgres"
    words_of_texts = False
    words = ("h_token=greatest", "h_until=greatest", "h_stamp=NULL",
             "h_request=CASE")
    missing = staticmethod(postgres_missing)
    LOCK = "snib.lock"

    @staticmethod
    def make():
        return PostgresServer()

    def sql(self, *statements, **options):
        return self.server.psql(*statements, **options)

    def _end(self, which):
        """How many were there, and are ended by the server."""
        return self.sql("SELECT pg_terminate_backend(pid) FROM "
                        f"pg_stat_activity WHERE {which}").split().count("t")

    def end_connections(self):
        return self._end("usename='snib'")

    def end_listeners(self):
        return self._end("application_name='snib: notified'")

    # A trigger's text that refuses each third write with a state that asks for
    # a repetition, and counts that.
    REPEAT = """
CREATE SEQUENCE IF NOT EXISTS public.tries;
CREATE SEQUENCE IF NOT EXISTS public.refused;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC;
CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint := nextval('public.tries');
BEGIN
  IF n % 3 = 0 THEN
    PERFORM nextval('public.refused');
    RAISE EXCEPTION 'planned' USING ERRCODE =
        (ARRAY['40001', '40P01', '55P03'])[1 + n / 3 % 3];
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON snib.lock FOR EACH ROW
  EXECUTE FUNCTION public.refuse()"""

    @contextlib.contextmanager
    def wants_repeats(self):
        self.sql(self.REPEAT)
        try:
            yield lambda: int(self.sql("SELECT last_value FROM refused"))
        finally:
            self.sql("DROP TRIGGER refuse ON snib.lock",
                     "DROP SEQUENCE public.tries, public.refused")

    def lock_row(self, seconds):
        """Another session has the lock's row for so long."""
        self.sql("SET idle_in_transaction_session_timeout=0; BEGIN; "
                 "UPDATE snib.lock SET stamp=stamp; "
                 f"SELECT pg_sleep({seconds}); ROLLBACK")

    def refused_rows(self):
        return self.log_says("lock timeout")

    @contextlib.contextmanager
    def ends_the_idle(self, milliseconds):
        """Sessions that say nothing for so long are ended by the server."""
        self.sql(f"ALTER SYSTEM SET idle_session_timeout='{milliseconds}ms'")
        self.sql("SELECT pg_reload_conf()")
        try:
            yield lambda: self.log_says("idle-session timeout")
        finally:
            self.sql("ALTER SYSTEM RESET idle_session_timeout")
            self.sql("SELECT pg_reload_conf()")

    # Each change of a lock writes 4 KB more on that disk.
    BALLAST = """
CREATE TABLE public.ballast(x text) TABLESPACE small;
ALTER TABLE public.ballast ALTER x SET STORAGE PLAIN;
GRANT ALL ON public.ballast TO PUBLIC;
CREATE OR REPLACE FUNCTION public.weigh() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.ballast VALUES (repeat('x', 4000));
  RETURN NEW;
END $$;
CREATE TRIGGER weigh BEFORE UPDATE ON snib.lock FOR EACH ROW
  EXECUTE FUNCTION public.weigh()"""

    @contextlib.contextmanager
    def disk_fills_up(self):
        with small_disk(self.server.dir + "/small", self.server.data, 1) as path:
            self.sql(f"CREATE TABLESPACE small LOCATION '{path}'")
            try:
                self.sql(self.BALLAST)
                yield lambda: self.log_says("No space left on device")
            finally:
                self.sql("DROP TRIGGER IF EXISTS weigh ON snib.lock",
                         "DROP TABLE IF EXISTS public.ballast")
                self.sql("DROP TABLESPACE small")


class MysqlRig(DatabaseRig):
    name = "mysql"
    words = ("h_token=LAST_INSERT_ID", "h_until=GREATEST", "h_stamp=NULL",
             "h_request=IF(")
    missing = staticmethod(mysql_missing)
    LOCK = "snib_lock"

    @staticmethod
    def make():
        return MysqlServer()

    def sql(self, *statements, **options):
        return self.server.sql(*statements, **options)

    def _end(self, which):
        ids = self.sql("SELECT id FROM information_schema.processlist WHERE "
                       f"user='snib' AND {which}").split()
        self.sql(*[f"KILL {one}" for one in ids] or ["DO 1"], check=False)
        return len(ids)

    def end_connections(self):
        return self._end("1")

    def end_listeners(self):
        return self._end("info LIKE 'SELECT IF(GET_LOCK(%'")

    def end_idle(self):
        return self._end("command='Sleep'")

    # See PostgresRig.REPEAT. A sequence is not rolled back.
    REPEAT = """CREATE SEQUENCE tries NOCACHE;
CREATE SEQUENCE refused NOCACHE;
DELIMITER //
CREATE TRIGGER refuse BEFORE UPDATE ON snib_lock FOR EACH ROW BEGIN
  DECLARE n BIGINT DEFAULT NEXTVAL(tries);
  IF n % 3=0 THEN
    DO NEXTVAL(refused);
    IF n % 2=0 THEN
      SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO=1213, MESSAGE_TEXT='planned';
    ELSE
      SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO=1205, MESSAGE_TEXT='planned';
    END IF;
  END IF;
END//
DELIMITER """

    @contextlib.contextmanager
    def wants_repeats(self):
        self.sql(self.REPEAT)
        try:
            yield lambda: int(self.sql(
                "SELECT next_not_cached_value - 1 FROM refused"))
        finally:
            self.sql("DROP TRIGGER refuse", "DROP SEQUENCE tries, refused")

    def lock_row(self, seconds):
        self.sql("START TRANSACTION", "UPDATE snib_lock SET stamp=stamp+1",
                 f"DO SLEEP({seconds})", "ROLLBACK")

    def refused_rows(self):
        """How often a wait for a row was given up."""
        return int(self.sql(
            "SET GLOBAL innodb_monitor_enable='lock_timeouts'",
            "SELECT count FROM information_schema.innodb_metrics WHERE "
            "name='lock_timeouts'"))

    BALLAST = """CREATE TABLE ballast(x VARCHAR(4000)) ENGINE=InnoDB
  DATA DIRECTORY='{path}';
DELIMITER //
CREATE TRIGGER weigh BEFORE UPDATE ON snib_lock FOR EACH ROW
  INSERT INTO ballast VALUES (REPEAT('x', 4000))//
DELIMITER """

    @contextlib.contextmanager
    def disk_fills_up(self):
        with small_disk(self.server.dir + "/small", self.server.data, 1) as path:
            try:
                self.sql(self.BALLAST.format(path=path))
                yield lambda: self.log_says("is full")
            finally:
                self.sql("DROP TRIGGER IF EXISTS weigh",
                         "DROP TABLE IF EXISTS ballast")


class Clocked:
    """A database server whose wall clock can be set."""
    shape = "clock"

    def make(self):
        self._shim = None
        server = type(super().make())(start=False)
        try:
            folder = server.dir
            self._shim = Shim(build_shim(folder), folder + "/clock")
            for name in ("clock", "shim.so"):
                os.chmod(os.path.join(folder, name), 0o666 if name == "clock"
                         else 0o755)
            server.env = {**os.environ, **self._shim.env}
            server.start()
            server.make()
        except ShimMissing as why:
            server.close()
            raise Skip(str(why)) from None
        except BaseException:
            server.close()
            raise
        return server

    def step_clock(self, seconds):
        self._shim.step_real(seconds)

    def close(self):
        super().close()
        if self._shim:
            self._shim.close()


class PostgresClocked(Clocked, PostgresRig):
    def now(self):
        return float(self.sql("SELECT extract(epoch FROM clock_timestamp())"))


class MysqlClocked(Clocked, MysqlRig):
    def now(self):
        return float(self.sql("SELECT UNIX_TIMESTAMP(SYSDATE(6))"))


class Replicated:
    """A primary and one that copies it; all clients come by the wire, which
    leads to whoever is the primary. A failover is for ever, so each pair gets
    servers of its own."""
    once = True

    def __init__(self):
        self.second = None
        super().__init__()

    def url_of(self, index):
        del index
        return self.wired_url

    @property
    def direct_url(self):
        return self.wired_url

    def tokens(self):
        """The lock's last token, as each of the two has it; 0: none."""
        text = f"SELECT max(token) FROM {self.LOCK}"
        return [int(self.ask(one, text) or 0)
                for one in (self.server, self.second)]

    def last_token(self):
        """As the one has it that was the second."""
        return int(self.ask(self.second, f"SELECT max(token) FROM {self.LOCK}"))

    def fail_over(self):
        """The primary is killed; the other one is the primary."""
        self.server.kill()
        assert self.is_gone()
        self.promote()
        self.wire.target = self.second.address
        self.wire.cut()

    def close(self):
        super().close()
        if self.second is not None:
            self.second.close()


class PostgresReplicated(Replicated, PostgresRig):
    shape = "asynchronous"

    def make(self):
        first = PostgresServer(hba=["local replication all trust"])
        self.second = PostgresServer(start=False)
        run(["rm", "-rf", self.second.data])
        run([os.path.join(programs(), "pg_basebackup"), "-D", self.second.data,
             "-h", first.dir, "-p", str(first.port), "-U", "admin", "-R", "-X",
             "stream", "-c", "fast"], cwd=self.second.dir, **self.second.who())
        self.second.start()
        wait_until(lambda: "streaming" in first.psql(
            "SELECT state FROM pg_stat_replication"), 20, "a standby")
        return first

    @staticmethod
    def ask(server, text):
        return server.psql(text)

    def fall_behind(self):
        self.second.psql("ALTER SYSTEM SET primary_conninfo=''")
        self.second.psql("SELECT pg_reload_conf()")

    def promote(self):
        self.second.psql("SELECT pg_promote()")


class PostgresSynchronous(PostgresReplicated):
    """A commit waits for the standby."""
    shape = "synchronous"

    def make(self):
        first = super().make()
        first.psql("ALTER SYSTEM SET synchronous_standby_names='*'")
        first.psql("SELECT pg_reload_conf()")
        wait_until(lambda: "sync" == first.psql(
            "SELECT sync_state FROM pg_stat_replication"), 20, "synchronous")
        return first


class MysqlReplicated(Replicated, MysqlRig):
    shape, MORE = "asynchronous", ()

    def make(self):
        first = MysqlServer(["--log-bin", "--server-id=1",
                             "--binlog-format=ROW", *self.MORE])
        self.second = MysqlServer(["--server-id=2", "--read-only", *self.MORE])
        first.sql("CREATE USER copy@'%'",
                  "GRANT REPLICATION SLAVE ON *.* TO copy@'%'")
        self.second.sql(
            f"CHANGE MASTER TO master_host='127.0.0.1', "
            f"master_port={first.port}, master_user='copy', "
            "master_use_gtid=slave_pos", "SET GLOBAL gtid_slave_pos='" +
            first.sql("SELECT @@gtid_binlog_pos") + "'", "START SLAVE")
        self.follows(first)
        return first

    def follows(self, first):
        wait_until(lambda: "Binlog Dump" in first.sql("SHOW PROCESSLIST"), 20,
                   "a replica")

    @staticmethod
    def ask(server, text):
        said = server.sql(text, check=False)
        return said if said.isdigit() else ""

    def fall_behind(self):
        self.second.sql("STOP SLAVE IO_THREAD")

    def promote(self):
        """All that it was sent is applied first."""
        self.second.sql("STOP SLAVE IO_THREAD")
        wait_until(lambda: "has read all relay log" in self.second.sql(
            "SHOW SLAVE STATUS\\G").lower(), 20, "all is applied")
        self.second.sql("STOP SLAVE", "SET GLOBAL read_only=0")


class MysqlSynchronous(MysqlReplicated):
    """Semi-synchronous, which waits for the replica before anybody sees it."""
    shape = "synchronous"
    MORE = ("--rpl-semi-sync-master-enabled=1",
            "--rpl-semi-sync-slave-enabled=1",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
            "--rpl-semi-sync-master-timeout=60000")

    def follows(self, first):
        wait_until(lambda: first.sql(
            "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'").endswith("|1"),
            20, "a replica that acknowledges")
