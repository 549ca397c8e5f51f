/* store/sqlite/doctor.c — the check-up of a lock file. */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/sqlite/internal.h"

static void doctor_tell_place(struct snib__sqlite *self, struct snib__buf *out)
{
    struct stat st, dir;
    char text[4400];
    const char *moved = snib__files_moved(&self->lockfile);
    snprintf(text, sizeof text, "%s", self->lockfile.path);
    snib__rec_finding(out, SNIB_LEVEL_OK, "file", text, "");
    snib__rec_finding(out, SNIB_LEVEL_OK, "file-system", self->lockfile.fs, "");
    if (moved || stat(self->lockfile.path, &st) ||
        fstat(self->lockfile.dir, &dir)) {
        bool there =
            snib__host_leads_to(self->lockfile.given, self->lockfile.dir);
        snprintf(text, sizeof text,
                 there ? "%s%s was removed or replaced"
                       : "%s%s: a link in its path leads elsewhere by now",
                 self->lockfile.path, moved ? moved : "");
        snib__rec_finding(out, SNIB_LEVEL_FAIL, "permissions", text,
                          "start all programs that use it anew");
        return;
    }
    snprintf(text, sizeof text, "file %04o uid %ld, directory %04o uid %ld",
             (unsigned)st.st_mode & 07777, (long)st.st_uid,
             (unsigned)dir.st_mode & 07777, (long)dir.st_uid);
    if (self->lockfile.shared) {
        snib__rec_finding(out, SNIB_LEVEL_OK, "permissions", text, "");
    } else if (st.st_mode & 022) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "permissions", text,
            "chmod 600 the file: others can end or forge your leases");
    } else if ((dir.st_uid != geteuid() && dir.st_uid != 0) ||
               ((dir.st_mode & 022) && !(dir.st_mode & S_ISVTX))) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "permissions", text,
            "others can replace the file: use a directory of your own");
    } else if (dir.st_mode & 022) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "permissions", text,
            "others may make files there, in the place of yours before you "
            "do: use a directory of your own");
    } else {
        snib__rec_finding(out, SNIB_LEVEL_OK, "permissions", text, "");
    }
}

/* A step writes some pages to the -wal, which is emptied only when it has
 * grown. With less space than that, steps fail now and then. */
static void doctor_tell_space(struct snib__sqlite *self, struct snib__buf *out)
{
    enum { LEAST_KIB = 64, FEW_KIB = 1024 };
    struct statvfs fs;
    char text[64];
    if (fstatvfs(self->lockfile.dir, &fs)) {
        return;
    }
    unsigned long long blocks = geteuid() == 0 ? fs.f_bfree : fs.f_bavail;
    unsigned long long kib = blocks * fs.f_frsize / 1024;
    snprintf(text, sizeof text, "%llu KiB free", kib);
    snib__rec_finding(out,
                      kib < LEAST_KIB ? SNIB_LEVEL_FAIL
                      : kib < FEW_KIB ? SNIB_LEVEL_WARN
                                      : SNIB_LEVEL_OK,
                      "disk", text,
                      kib < FEW_KIB
                          ? "make room on that file system (df): without it "
                            "nothing can be acquired, renewed or released"
                          : "");
}

static void doctor_tell_users(struct snib__sqlite *self, struct snib__buf *out)
{
    if (self->lockfile.shared) {
        char text[64];
        snprintf(text, sizeof text, "shared by the members of group %ld",
                 (long)self->lockfile.group);
        snib__rec_finding(out, SNIB_LEVEL_OK, "users", text, "");
    } else if (snib__lockfile_is_sole(&self->lockfile)) {
        char how[400];
        snib__shared_how(how, sizeof how);
        snib__rec_finding(
            out, SNIB_LEVEL_OK, "users",
            geteuid() == 0
                ? "root's programs only: other users of this host have files "
                  "of their own and are not excluded"
                : "this user's programs only: other users of this host, root "
                  "included, have files of their own and are not excluded",
            how);
    }
}

static void doctor_tell_journal(struct snib__sqlite *self,
                                struct snib__buf *out)
{
    sqlite3_stmt *st = NULL;
    char mode[16] = "?", text[4400];
    struct stat wal;
    if (sqlite3_prepare_v2(self->db.handle, "PRAGMA journal_mode", -1, &st,
                           NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        snprintf(mode, sizeof mode, "%s",
                 (const char *)sqlite3_column_text(st, 0));
    }
    sqlite3_finalize(st);
    if (sqlite3_stricmp(mode, "wal")) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "journal", mode,
            "end all that use it: who opens it next changes that");
        return;
    }
    snprintf(text, sizeof text, "%s-wal", self->lockfile.path);
    long long size = stat(text, &wal) ? 0 : (long long)wal.st_size;
    snprintf(text, sizeof text, "wal, %lld KiB", size / 1024);
    bool kept = size > SNIB__SQLITE_WAL_CUT;
    snib__rec_finding(
        out, kept ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK, "journal", text,
        kept ? "another program reads the file in one long transaction "
               "and keeps it from being emptied: end that (fuser)"
             : "");
}

static void doctor_tell_integrity(struct snib__sqlite *self,
                                  struct snib__buf *out)
{
    sqlite3_stmt *st = NULL;
    char text[200] = "cannot be checked";
    int rc = sqlite3_prepare_v2(self->db.handle, "PRAGMA quick_check(1)", -1,
                                &st, NULL);
    if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        snprintf(text, sizeof text, "%s",
                 (const char *)sqlite3_column_text(st, 0));
    }
    sqlite3_finalize(st);
    if (sqlite3_stricmp(text, "ok") == 0) {
        snib__rec_finding(out, SNIB_LEVEL_OK, "integrity", "ok", "");
    } else {
        snib__rec_finding(
            out, SNIB_LEVEL_FAIL, "integrity", text,
            "stop all users, move the file away; tokens restart at the "
            "clock");
    }
}

static void doctor_tell_layout(struct snib__buf *out)
{
    char text[40]; /* of another one the file was not opened */
    snprintf(text, sizeof text, "the file has schema %d", SNIB__SQLITE_SCHEMA);
    snib__rec_finding(out, SNIB_LEVEL_OK, "layout", text, "");
}

/* Take the write lock, with a look after each slice at who is in the way: only so
 * it shows whether that process stands still. */
static int doctor_begin(struct snib__sqlite *self, snib_instant from,
                        struct snib_error *reterr)
{
    enum { SLICE_MS = 100 };
    snib_instant until = snib__after(from, self->patience), now = from;
    for (;;) {
        snib_instant slice = snib__after(now, snib__ms(SLICE_MS));
        int rc = snib__db_begin(&self->db, snib__sooner(slice, until));
        if (rc) {
            snib__db_fail(&self->db, rc, self->lockfile.path, reterr);
        }
        now = snib__host_now();
        if (rc != SQLITE_BUSY || snib__reached(now, until)) {
            return rc;
        }
    }
}

/* Time an empty write transaction, which is what a release needs. */
static void doctor_tell_latency(struct snib__sqlite *self,
                                struct snib__buf *out)
{
    char text[300];
    struct snib_error error;
    snib_instant from = snib__host_now();
    int rc = doctor_begin(self, from, &error);
    long long us = snib__between(from, snib__host_now()).ns / 1000;
    if (rc) {
        snib__rec_finding(
            out, SNIB_LEVEL_FAIL, "write-lock", error.text,
            "continue or kill a process that stands still, and no "
            "other; df, mount");
        return;
    }
    snib__db_rollback(&self->db);
    snprintf(text, sizeof text, "free after %lld us", us);
    snib__rec_finding(
        out, us > 100000 ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK, "write-lock", text,
        us > 100000 ? "many processes share this file: use several" : "");
}

static void doctor_tell_host(struct snib__sqlite *self, struct snib__buf *out)
{
    char text[100];
    uint32_t notifiers;
    snprintf(text, sizeof text, "CLOCK_BOOTTIME, %lld s since boot",
             (long long)(snib__host_now().ns / 1000000000));
    snib__rec_finding(out, SNIB_LEVEL_OK, "clock", text, "");
    snib__rec_finding(out, SNIB_LEVEL_OK, "boot-id", self->host.boot, "");
    notifiers = snib__notifier_tidy(&self->notifier, &self->lockfile, 100000);
    snprintf(text, sizeof text, "%u waiting clients can be woken", notifiers);
    snib__rec_finding(out, SNIB_LEVEL_OK, "wake-up", text, "");
    if (self->no_notifier) {
        snib__rec_finding(out, SNIB_LEVEL_WARN, "wake-up",
                          "none could be made here",
                          "mount /proc; waiters poll once a second meanwhile");
    }
    if (self->host.start <= 0 || !self->host.pidns) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "processes",
            "/proc is not that of this pid namespace",
            "mount /proc; a killed holder's lock is freed by its lease only");
    }
}

void snib__sqlite_doctor(struct snib__sqlite *self, struct snib__request *r)
{
    struct snib__buf *out = r->said.result;
    doctor_tell_place(self, out);
    doctor_tell_layout(out);
    doctor_tell_space(self, out);
    doctor_tell_users(self, out);
    doctor_tell_journal(self, out);
    doctor_tell_integrity(self, out);
    doctor_tell_latency(self, out);
    doctor_tell_host(self, out);
    if (out->failed) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
    } else {
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
}
