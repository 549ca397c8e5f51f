/* bench/rows_tls.c — the same locks through TLS and without, on one server of
 * this row's own that listens on two ports. */
#include <stdio.h>
#include <sys/wait.h>

#include "bench.h"

enum { THREADS = 64 };

static char cert[200], key[200], plain_url[80], tls_url[320];

/* A certificate that has signed itself. False: there is no openssl. */
static bool make_certificate(void)
{
    int status;
    snprintf(cert, sizeof cert, "%s/tls.pem", settings.dir);
    snprintf(key, sizeof key, "%s/tls.key", settings.dir);
    pid_t pid = server_run((const char *[]){
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
        "-out", cert, NULL});
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static pid_t start_server(void)
{
    int plain = port_free(), tls = port_free();
    char number[16];
    snprintf(number, sizeof number, "%d", tls);
    snprintf(plain_url, sizeof plain_url, "redis://127.0.0.1:%d", plain);
    snprintf(tls_url, sizeof tls_url, "rediss://127.0.0.1:%d?tls_ca=%s", tls,
             cert);
    pid_t pid = server_redis(
        plain, (const char *[]){"--tls-port", number, "--tls-cert-file", cert,
                                "--tls-key-file", key, "--tls-ca-cert-file",
                                cert, "--tls-auth-clients", "no", NULL});
    return pid > 0 && server_comes(tls) ? pid : -1;
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
    measure_own_locks(&many, THREADS, tls, plain);
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
    server_stop(server);
}
