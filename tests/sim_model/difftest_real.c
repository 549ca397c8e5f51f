/*
 * difftest_real.c — the real server's side of the differential test
 */
#include "real.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In the order of enum state in difftest.c. */
const struct real_state real_states[] = {
    {"oom", {"config set maxmemory 1"}, {"config set maxmemory 0"}},
    {"noreplicas",
     {"config set min-replicas-to-write 1"},
     {"config set min-replicas-to-write 0"}},
    {"readonly", {"replicaof 127.0.0.1 1"}, {"replicaof no one"}},
    {"masterdown",
     {"config set replica-serve-stale-data no", "replicaof 127.0.0.1 1"},
     {"replicaof no one", "config set replica-serve-stale-data yes"}},
    {"channel",
     {"acl setuser default resetchannels"},
     {"acl setuser default allchannels"}},
    {"key", {"acl setuser default resetkeys"}, {"acl setuser default allkeys"}},
    {"deny",
     {"acl setuser default -publish -hset -pubsub|numsub"},
     {"acl setuser default +@all"}},
    {"noperm", {"acl setuser default -@all"}, {"acl setuser default +@all"}},
    {"password",
     {"config set requirepass " REAL_PASSWORD},
     {"config set requirepass \"\""}},
    {"misconf", {"config set save \"3600 1\""}, {"config set save \"\""}},
    {"busy", {NULL}, {NULL}},
};

const size_t real_states_n = sizeof real_states / sizeof real_states[0];

static void doze(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

bool real_present(void)
{
    const char *path = getenv("PATH");
    char file[512];
    while (path != NULL && *path != '\0') {
        int n = (int)strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/redis-server", n, path);
        if (access(file, X_OK) == 0) {
            return true;
        }
        path += n;
        path += *path == ':';
    }
    return false;
}

int real_connect(const struct real *r)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", r->sock);
    for (int i = 0; i < 1000; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
            return fd;
        }
        close(fd);
        int status;
        if (waitpid(r->pid, &status, WNOHANG) != 0) {
            return -1;
        }
        doze();
    }
    return -1;
}

static bool send_line(int fd, const char *line)
{
    char buf[256];
    int n = snprintf(buf, sizeof buf, "%s\r\n", line);
    return write(fd, buf, (size_t)n) == (ssize_t)n;
}

/* One command whose answer fits one read. */
static bool admin(struct real *r, const char *line, char *answer, size_t cap)
{
    if (!send_line(r->admin, line)) {
        return false;
    }
    ssize_t n = read(r->admin, answer, cap - 1);
    answer[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static bool admin_ok(struct real *r, const char *line)
{
    char answer[16384];
    if (admin(r, line, answer, sizeof answer) && answer[0] == '+') {
        return true;
    }
    fprintf(stderr, "redis-server to %s: %s\n", line, answer);
    return false;
}

/* Its directory is gone, so a dump fails, and that is remembered. */
static bool fail_a_dump(struct real *r)
{
    char answer[16384];
    if (rmdir(r->data) != 0 || !admin_ok(r, "bgsave")) {
        return false;
    }
    for (int i = 0; i < 1000; i++) {
        if (!admin(r, "info persistence", answer, sizeof answer)) {
            return false;
        }
        if (strstr(answer, "rdb_last_bgsave_status:err") != NULL) {
            return true;
        }
        doze();
    }
    return false;
}

bool real_start(struct real *r)
{
    char byte[256];
    snprintf(r->dir, sizeof r->dir, "/tmp/snib-difftest-XXXXXX");
    if (mkdtemp(r->dir) == NULL) {
        return false;
    }
    snprintf(r->sock, sizeof r->sock, "%s/s", r->dir);
    snprintf(r->data, sizeof r->data, "%s/data", r->dir);
    char command[256];
    snprintf(command, sizeof command, "mkdir %s", r->data);
    if (system(command) != 0) {
        return false;
    }
    r->pid = fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a crashed test */
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
               r->sock, "--save", "", "--appendonly", "no", "--dir", r->data,
               "--busy-reply-threshold", "1", (char *)NULL);
        _exit(127);
    }
    r->admin = real_connect(r);
    r->looper = real_connect(r);
    return r->admin >= 0 && r->looper >= 0 &&
           admin_ok(r, "acl setuser admin on nopass allkeys allchannels "
                       "+@all") &&
           admin_ok(r, "auth admin x") &&
           send_line(r->looper, "auth admin x") &&
           read(r->looper, byte, sizeof byte) > 0 && fail_a_dump(r);
}

bool real_runs(struct real *r)
{
    int status;
    if (r->pid > 0 && waitpid(r->pid, &status, WNOHANG) == r->pid) {
        fprintf(stderr, "redis-server: status %d\n", status);
        r->pid = 0;
    }
    return r->pid > 0;
}

void real_stop(struct real *r)
{
    close(r->admin);
    close(r->looper);
    if (r->pid > 0) {
        kill(r->pid, SIGKILL);
        waitpid(r->pid, NULL, 0);
    }
    unlink(r->sock);
    rmdir(r->data);
    rmdir(r->dir);
}

static bool busy(struct real *r, bool on)
{
    char answer[16384];
    char byte[256];
    if (!on) {
        bool ok = admin_ok(r, "script kill");
        return ok && read(r->looper, byte, sizeof byte) > 0;
    }
    if (!send_line(r->looper, "eval 'while true do end' 0")) {
        return false;
    }
    for (int i = 0; i < 1000; i++) {
        if (!admin(r, "ping", answer, sizeof answer)) {
            return false;
        }
        if (strncmp(answer, "-BUSY", 5) == 0) {
            return true;
        }
        doze();
    }
    fprintf(stderr, "redis-server does not get busy: %s\n", answer);
    return false;
}

bool real_switch(struct real *r, size_t state, bool on)
{
    const struct real_state *s = &real_states[state];
    if (strcmp(s->name, "busy") == 0) {
        return busy(r, on);
    }
    const char *const *sessions = on ? s->on : s->off;
    for (int i = 0; i < 3 && sessions[i] != NULL; i++) {
        if (!admin_ok(r, sessions[i])) {
            return false;
        }
    }
    return true;
}
