/* store/file/doctor.c — the check-up of a lock file. */
#include "store/file/internal.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/file/shared.h"

static void doctor_users(struct snib__file *self, struct snib__buf *out)
{
    char text[64], how[400] = "";
    if (self->place.shared) {
        snprintf(text, sizeof text, "shared by the members of group %ld",
                 (long)self->place.group);
        snib__rec_finding(out, SNIB_LEVEL_OK, "users", text, "");
        return;
    }
    if (self->place.is_default) {
        snib__shared_how(how, sizeof how);
    }
    snib__rec_finding(
        out, SNIB_LEVEL_OK, "users",
        geteuid() == 0
            ? "root's programs only: other users of this host have files of "
              "their own and are not excluded"
            : "this user's programs only: other users of this host, root "
              "included, have files of their own and are not excluded",
        how);
}

/* Before Linux 6.17 btrfs wants room anew for each page of a mapped file. */
static bool doctor_is_old_kernel(void)
{
    struct utsname u;
    int major, minor;
    return uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2 ||
           major < 6 || (major == 6 && minor < 17);
}

/* Does the file keep the room that was made for it (room.c)? */
static void doctor_fs(struct snib__file *self, struct snib__buf *out)
{
    const char *fs = self->place.fs, *text = fs, *remedy = "";
    bool btrfs = strcmp(fs, "btrfs") == 0;
    if (btrfs && !snib__map_keeps_room(&self->map)) {
        text = "btrfs, and the file is copied on write: when the disk is full, "
               "programs that use a lock are ended (SIGBUS)";
        remedy = "put it on ext4, xfs or tmpfs; or, if it has no values, "
                 "remove it when nobody uses it: a new one keeps its room";
    } else if (btrfs && doctor_is_old_kernel()) {
        text = "btrfs, under a Linux before 6.17: when the disk is full, "
               "programs that use a lock are ended (SIGBUS)";
        remedy = "put it on ext4, xfs or tmpfs";
    } else if (strcmp(fs, "zfs") == 0) {
        text = "zfs keeps no room for a file: what is changed while the disk "
               "is full may be lost by a restart";
        remedy = "put it on ext4, xfs or tmpfs";
    }
    snib__rec_finding(out, remedy[0] ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK,
                      "file-system", text, remedy);
}

static void doctor_place(struct snib__file *self, struct snib__buf *out)
{
    struct stat st, dir;
    uint64_t size;
    char text[200], remedy[700];
    snib__rec_finding(out, SNIB_LEVEL_OK, "file", self->place.path, "");
    doctor_fs(self, out);
    if (snib__place_moved(&self->place, &size) || fstat(self->place.fd, &st) ||
        fstat(self->place.dir, &dir)) {
        snib__rec_finding(
            out, SNIB_LEVEL_FAIL, "permissions",
            snib__host_leads_to(self->place.given, self->place.dir)
                ? "the file was removed or replaced"
                : "a link in the file's path leads elsewhere by now",
            "start all programs that use it anew");
        return;
    }
    snprintf(text, sizeof text, "file %04o uid %ld, directory %04o uid %ld",
             (unsigned)st.st_mode & 07777, (long)st.st_uid,
             (unsigned)dir.st_mode & 07777, (long)dir.st_uid);
    bool open = (st.st_mode & 022) && !self->place.shared;
    bool others =
        ((dir.st_uid != geteuid() && dir.st_uid != 0) || (dir.st_mode & 022)) &&
        !self->place.shared;
    snprintf(remedy, sizeof remedy,
             "chmod 600 %.600s: others can end or forge your leases",
             self->place.path);
    snib__rec_finding(out, open || others ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK,
                      "permissions", text,
                      open     ? remedy
                      : others ? "others can make or replace the file: use a "
                                 "directory of your own"
                               : "");
    if (self->place.users < 0) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "directory",
            "it cannot be read or locked by this user: if the file is "
            "removed while in use, who opens the path anew is not kept "
            "out",
            "let this user read the directory");
    }
    doctor_users(self, out);
}

static void doctor_layout(struct snib__file *self, struct snib__buf *out)
{
    char text[120];
    const struct snib__file_head *h = self->map.head;
    snprintf(text, sizeof text, "the file has layout %u, made on %.63s",
             h->layout, h->host);
    snib__rec_finding(out, SNIB_LEVEL_OK, "layout", text, "");
}

/* The file has room of its own and a reserve for releases. Only where it has to
 * grow is the disk asked. */
static void doctor_space(struct snib__file *self, struct snib__buf *out)
{
    enum { FEW_KIB = 1024, NO_KIB = 4 };
    struct statvfs fs;
    char text[120];
    struct snib__file_head *h = self->map.head;
    if (fstatvfs(self->place.fd, &fs)) {
        return;
    }
    unsigned long long blocks = geteuid() == 0 ? fs.f_bfree : fs.f_bavail;
    unsigned long long kib = blocks * fs.f_frsize / 1024;
    unsigned long long size = snib__file_load(&h->size);
    unsigned long long top = snib__file_load(&h->top) * SNIB__FILE_UNIT;
    snprintf(text, sizeof text,
             "%llu KiB free; the file has %llu KiB, of which %llu were used",
             kib, size / 1024, top / 1024);
    bool few = kib < FEW_KIB && size - top < FEW_KIB * 1024ULL;
    bool none = kib < NO_KIB && size - top < SNIB__FILE_LEAST;
    snib__rec_finding(
        out,
        none  ? SNIB_LEVEL_FAIL
        : few ? SNIB_LEVEL_WARN
              : SNIB_LEVEL_OK,
        "disk", text,
        few ? "make room on that file system (df): without it nothing "
              "new can be acquired"
            : "");
}

/* What is in the file. */
struct content {
    uint32_t names, holders, waiters, values;
    uint32_t bad, tokens; /* damaged buckets, damaged tokens */
};

static void doctor_count(struct snib__copy *c, struct content *n)
{
    for (size_t at = 0; at < c->used; n->names++) {
        const struct snib__file_lock *l = snib__bucket_lock(c, at);
        size_t end = at + l->size;
        n->tokens += !snib__is_token(snib__file_token_of(l));
        for (at += snib__bucket_claims(l); at < end;) {
            const struct snib__file_claim *k = snib__bucket_claim(c, at);
            n->holders += k->state == SNIB__HOLDS || k->state == SNIB__SHARES;
            n->waiters += k->state == SNIB__WAITS;
            at += k->size;
        }
    }
}

/* Look at every bucket and every index. */
static void doctor_integrity(struct snib__file *self, struct snib__buf *out)
{
    struct snib__map *m = &self->map;
    struct content n = {0};
    char text[200];
    for (uint32_t i = 0; i < m->root_count; i++) {
        snib_err err = snib__root_copy(m, &self->copy, SNIB__FILE_LOCKS, i);
        n.bad += err == SNIB_ERR_CORRUPT;
        if (!err) {
            doctor_count(&self->copy, &n);
        }
    }
    for (uint32_t i = 0; i < m->value_root_count; i++) {
        snib_err err = snib__root_copy(m, &self->copy, SNIB__FILE_INDEX, i);
        n.bad += err == SNIB_ERR_CORRUPT;
        n.values +=
            err ? 0
                : (uint32_t)(self->copy.used / sizeof(struct snib__file_entry));
    }
    uint32_t bad = n.bad, tokens = n.tokens;
    snprintf(text, sizeof text,
             bad || tokens ? "%u names, %u holders, %u waiters, %u values; %u "
                             "damaged buckets, %u damaged tokens"
                           : "%u names, %u holders, %u waiters, %u values",
             n.names, n.holders, n.waiters, n.values, bad, tokens);
    snib__rec_finding(
        out, bad || tokens ? SNIB_LEVEL_FAIL : SNIB_LEVEL_OK, "integrity", text,
        bad      ? "stop all users, move the file away; tokens restart "
                   "at the clock"
        : tokens ? "snib force-release begins such a name anew"
                 : "");
}

static void doctor_clients(struct snib__file *self, struct snib__buf *out)
{
    struct snib__file_head *h = self->map.head;
    char text[160];
    uint64_t opened = snib__file_load(&h->opened);
    snprintf(text, sizeof text,
             "%llu live, or were killed since nobody used the file",
             (unsigned long long)(opened - snib__file_load(&h->closed)));
    snib__rec_finding(out, SNIB_LEVEL_OK, "clients", text, "");
}

static void doctor_host(struct snib__file *self, struct snib__buf *out)
{
    char text[100];
    snprintf(text, sizeof text, "CLOCK_BOOTTIME, %lld s since boot",
             (long long)(snib__host_now().ns / 1000000000));
    snib__rec_finding(out, SNIB_LEVEL_OK, "clock", text, "");
    snib__rec_finding(out, SNIB_LEVEL_OK, "boot-id", self->host.boot, "");
    snprintf(text, sizeof text, "clients that can be woken just now: %u",
             snib__ear_count(&self->map));
    snib__rec_finding(out, SNIB_LEVEL_OK, "wake-up", text, "");
    if (self->no_ear || self->ear.failed) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "wake-up", "none could be made here",
            "descriptors or threads are used up, or the file's slots; "
            "waiters poll once a second meanwhile");
    }
    if (self->host.start <= 0 || !self->host.pidns) {
        snib__rec_finding(
            out, SNIB_LEVEL_WARN, "processes",
            "/proc is not that of this pid namespace",
            "mount /proc; a killed holder's lock is freed by its lease only");
    }
}

void snib__file_doctor(struct snib__file *self, struct snib__request *r)
{
    struct snib__buf *out = r->said.result;
    doctor_place(self, out);
    if (snib__map_is_cut(&self->map, snib__map_size(&self->map))) {
        snib__rec_finding(out, SNIB_LEVEL_FAIL, "integrity",
                          "the file was cut off while in use",
                          "stop all programs that use it, and remove it");
    } else {
        doctor_layout(self, out);
        doctor_space(self, out);
        doctor_integrity(self, out);
        doctor_clients(self, out);
        doctor_host(self, out);
    }
    if (out->failed) {
        snib__file_fail(self, r, SNIB_ERR_NOMEM);
    } else {
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
}
