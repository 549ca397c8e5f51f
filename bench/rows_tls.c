/* bench/rows_tls.c — the same locks through TLS and without, on one server of
 * this row's own that listens on two ports. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { THREADS = 64 };

static char cert[200], key[200], plain_url[80], tls_url[320];

static pid_t start(const char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return pid;
}

/* A certificate that has signed itself. False: there is no openssl. */
static bool make_certificate(void)
{
    int status;
    snprintf(cert, sizeof cert, "%s/tls.pem", settings.dir);
    snprintf(key, sizeof key, "%s/tls.key", settings.dir);
    pid_t pid = start((const char *[]){
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
        "-out", cert, NULL});
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static pid_t start_server(void)
{
    int plain = port_free(), tls = port_free();
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", plain);
    snprintf(b, sizeof b, "%d", tls);
    snprintf(plain_url, sizeof plain_url, "redis://127.0.0.1:%d", plain);
    snprintf(tls_url, sizeof tls_url, "rediss://127.0.0.1:%d?tls_ca=%s", tls,
             cert);
    pid_t pid = start((const char *[]){
        "redis-server", "--bind", "127.0.0.1", "--port", a, "--tls-port", b,
        "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file",
        cert, "--tls-auth-clients", "no", "--save", "", NULL});
    for (int i = 0; i < 500 && !(port_answers(plain) && port_answers(tls));
         i++) {
        pause_s(0.01);
    }
    return port_answers(tls) ? pid : -1;
}

static double rate_of(struct snib_client *client)
{
    struct crowd *c = crowd_new();
    c->data = client;
    struct span s =
        crowd_threads(c, THREADS, member_own_lock, settings.seconds);
    crowd_free(c);
    return span_rate(&s);
}

static void measure(struct snib_client *tls, struct snib_client *plain)
{
    struct finding one = {.row = "tls",
                          .what = "acquire+release; without TLS",
                          .unit = "us",
                          .per_ratio = true,
                          .kind = GOAL_AT_MOST,
                          .goal = 2};
    struct finding many = {.row = "tls",
                           .what = "64 threads, a lock each; without TLS",
                           .unit = "1/s",
                           .per_ratio = true,
                           .kind = GOAL_AT_LEAST,
                           .goal = 0.8};
    struct snib_lock *a = open_lock(tls, "bench:tls");
    struct snib_lock *b = open_lock(plain, "bench:plain");
    measure_alone(&one, work_of_lock(a), work_of_lock(b));
    for (int i = 0; i < settings.rounds; i++) {
        double ours = rate_of(tls);
        finding_pair(&many, ours, rate_of(plain));
    }
    report(&many);
    snib_lock_free(a);
    snib_lock_free(b);
}

void row_tls(void)
{
    pid_t server = make_certificate() ? start_server() : -1;
    if (server < 0) {
        report_skip("tls", "no openssl, or no redis-server with TLS");
        return;
    }
    struct snib_client_options o = {.size = sizeof o, .url = tls_url};
    struct snib_client *tls = NULL, *plain = open_client(plain_url);
    struct snib_error e;
    snib_err err = snib_client_open(&o, &tls, &e);
    if (err == SNIB_ERR_UNSUPPORTED) {
        report_skip("tls", "built without TLS");
    } else if (err) {
        die("%s", e.text);
    } else {
        measure(tls, plain);
    }
    snib_client_free(tls);
    snib_client_free(plain);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}
