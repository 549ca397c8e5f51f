/* A TLS server that lies: a filter of net/tls.h talks to a real server in
 * memory, whose bytes are cut into pieces, changed, left out, doubled, or
 * replaced by the input's own; and that asks for new keys, sends tickets and
 * much data, and closes, whenever it likes. The filter ends each call, keeps
 * within its bounds, says why when it breaks, and gives out nothing but what
 * the server has written, in order. */
#include "fuzz.h"

#if !SNIB_WITH_TLS
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data;
    (void)size;
    return 0;
}
#else

#include <unistd.h>

#include "../unit/tls_peer.h"
#include "base/mem.h"
#include "dice.h"

enum { STEPS = 200, WIRE = 256 << 10, MUCH = 40000 };

static struct paper authority, server;
static char ca_path[] = "/tmp/snib-fuzz-ca-XXXXXX";
static SSL_CTX *contexts[2];
static struct snib__tls_shared *shared;

static struct {
    struct dice dice;
    struct snib__tls *tls;
    struct peer peer;
    snib__tls_progress progress;
    uint32_t written, read; /* bytes of the server's stream of numbers */
    bool over;
} w;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char length[] = "-max_len=600", at_once[] = "-len_control=0";
    want_option(argc, argv, length);
    want_option(argc, argv, at_once);
    authority = paper_new(NULL, "fuzz CA", NULL, -3600, 360000);
    server = paper_new(&authority, "h", "DNS:h", -3600, 360000);
    int fd = mkstemp(ca_path);
    MUST(fd >= 0);
    close(fd);
    paper_write(&authority, ca_path, NULL, NULL);
    contexts[0] = peer_ctx(&server, NULL, TLS1_2_VERSION);
    contexts[1] = peer_ctx(&server, NULL, TLS1_3_VERSION);
    return 0;
}

static uint32_t roll_far(void)
{
    uint32_t high = roll(&w.dice);
    return high << 8 | roll(&w.dice);
}

/* The n-th byte that the server writes. */
static uint8_t byte_at(uint32_t n)
{
    return (uint8_t)(n * 2654435761u >> 24);
}

static void check(void)
{
    size_t wire;
    snib_err err;
    (void)snib__tls_wire(w.tls, &wire);
    MUST(wire <= WIRE);
    const char *why = snib__tls_why(w.tls, &err);
    MUST((w.progress == SNIB__TLS_BROKEN) <= (*why != 0));
    MUST((*why != 0) == (err != SNIB_ERR_OK));
    MUST(strlen(why) < 300);
    for (; *why; why++) {
        MUST((uint8_t)*why >= 0x20 && *why != 0x7f);
    }
}

/* Take what is open. */
static void open_all(void)
{
    static uint8_t to[16 << 10];
    long n = 1;
    while (w.progress == SNIB__TLS_UP && n > 0) {
        size_t room = 1 + roll_far() % sizeof to;
        n = snib__tls_open(w.tls, to, room);
        for (long i = 0; i < n; i++) {
            MUST(w.read < w.written && to[i] == byte_at(w.read));
            w.read++;
        }
        w.over = w.over || n < 0;
    }
}

static void feed(const uint8_t *bytes, size_t size)
{
    while (size && !w.over) {
        size_t n = one_in(&w.dice, 3) ? 1 + roll_far() % size : size;
        uint8_t *exact = malloc(n); /* reading past it shows */
        MUST(exact);
        memcpy(exact, bytes, n);
        snib__tls_feed(w.tls, exact, n);
        if (w.progress == SNIB__TLS_SHAKES) {
            w.progress = snib__tls_shake(w.tls);
        }
        open_all();
        check();
        w.over = w.over || w.progress == SNIB__TLS_BROKEN;
        free(exact);
        bytes += n;
        size -= n;
    }
}

/* What the server has said comes, as it is or not. */
static void deliver(void)
{
    size_t size;
    uint8_t *bytes = peer_says(&w.peer, &size);
    switch (size ? roll(&w.dice) % 24 : 0) {
    case 1: /* changed */
        bytes[roll_far() % size] ^= (uint8_t)(1 + roll(&w.dice) % 255);
        break;
    case 2: /* cut */
        size = roll_far() % size;
        break;
    case 3: /* twice */
        feed(bytes, size);
        break;
    case 4: { /* something of the input's own before it */
        uint8_t own[64];
        size_t n = 1 + roll(&w.dice) % sizeof own;
        for (size_t i = 0; i < n; i++) {
            own[i] = (uint8_t)roll(&w.dice);
        }
        feed(own, n);
        break;
    }
    default:
        break;
    }
    feed(bytes, size);
    free(bytes);
}

static void server_acts(void)
{
    static uint8_t much[MUCH];
    uint32_t n = 0;
    if (!SSL_is_init_finished(w.peer.ssl)) {
        return;
    }
    ERR_clear_error();
    switch (roll(&w.dice) % 8) {
    case 0:
        (void)SSL_key_update(w.peer.ssl, one_in(&w.dice, 2)
                                             ? SSL_KEY_UPDATE_REQUESTED
                                             : SSL_KEY_UPDATE_NOT_REQUESTED);
        (void)SSL_do_handshake(w.peer.ssl);
        break;
    case 1:
        (void)SSL_new_session_ticket(w.peer.ssl);
        (void)SSL_do_handshake(w.peer.ssl);
        break;
    case 2:
        (void)SSL_renegotiate(w.peer.ssl);
        (void)SSL_do_handshake(w.peer.ssl);
        break;
    case 3:
        if (one_in(&w.dice, 4)) {
            (void)SSL_shutdown(w.peer.ssl);
        }
        break;
    default:
        n = 1 + roll_far() % (one_in(&w.dice, 5) ? MUCH : 40);
        for (uint32_t i = 0; i < n; i++) {
            much[i] = byte_at(w.written + i);
        }
        size_t went = 0;
        if (SSL_write_ex(w.peer.ssl, much, n, &went)) {
            w.written += (uint32_t)went;
        }
        break;
    }
    ERR_clear_error();
}

static void client_acts(void)
{
    uint8_t out[300];
    if (w.progress == SNIB__TLS_UP) {
        memset(out, 'x', sizeof out);
        size_t n = snib__tls_seal(w.tls, out, 1 + roll(&w.dice) % sizeof out);
        MUST(n <= sizeof out);
    }
    if (!one_in(&w.dice, 6)) {
        wire_up(w.tls, &w.peer);
    }
    peer_shakes(&w.peer);
    if (SSL_is_init_finished(w.peer.ssl)) {
        uint8_t to[512];
        size_t n;
        while (SSL_read_ex(w.peer.ssl, to, sizeof to, &n)) {
        }
        ERR_clear_error();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__tls_files files = {.ca = ca_path};
    w.dice = (struct dice){data, data + size};
    w.written = w.read = 0;
    w.over = false;
    if (!shared) {
        MUST(!snib__tls_shared_new(&files, &shared, NULL));
        unlink(ca_path);
    }
    int64_t blocks = snib__mem_alive();
    w.peer = peer_of(contexts[roll(&w.dice) % 2]);
    w.tls = snib__tls_new(shared, "h:1");
    MUST(w.tls);
    w.progress = snib__tls_shake(w.tls);
    for (int i = 0; i < STEPS && w.dice.p < w.dice.end && !w.over; i++) {
        client_acts();
        server_acts();
        deliver();
    }
    if (one_in(&w.dice, 2)) {
        snib__tls_bye(w.tls);
    }
    check();
    snib__tls_free(w.tls);
    peer_end(&w.peer);
    MUST(snib__mem_alive() == blocks);
    return 0;
}

#endif
