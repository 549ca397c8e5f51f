/* examples/value.c — a stock counted down without a lock.
 *
 * Eight threads sell 50 pieces. Nobody waits for anybody: each reads the stock,
 * computes the next one, and writes it if it is still the one that was read.
 * The same works between processes and hosts that share a store. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "snib/sys.h"
#include <snib/value.h>

enum { PIECES = 50, SELLERS = 8, SOLD_OUT = 1 };

struct seller {
    pthread_t thread;
    struct snib_client *client;
    int sold;
    struct snib_error error;
};

struct stock {
    char text[16];
    size_t size;
};

static void set_stock(struct stock *s, int pieces)
{
    s->size = (size_t)snprintf(s->text, sizeof s->text, "%d", pieces);
}

/* May run several times before one of its results is written: no effect but
 * *next. */
static int take_one(void *data, const struct snib_value *now,
                    struct snib_value_next *next)
{
    struct stock *s = data;
    int pieces = now->version ? atoi(now->bytes) : 0;
    if (pieces == 0) {
        return SOLD_OUT; /* nothing is written */
    }
    set_stock(s, pieces - 1);
    next->bytes = s->text;
    next->size = s->size;
    return 0;
}

static void *sell(void *data)
{
    struct seller *s = data;
    struct stock stock;
    for (;;) {
        int stopped;
        if (snib_value_update(s->client, "example:stock", 0, NULL, take_one,
                              &stock, &stopped, NULL, &s->error) ||
            stopped == SOLD_OUT) {
            return NULL;
        }
        s->sold++;
    }
}

/* Whatever was there before, from an earlier run. */
static int fill(void *data, const struct snib_value *now,
                struct snib_value_next *next)
{
    struct stock *s = data;
    (void)now;
    next->bytes = s->text;
    next->size = s->size;
    return 0;
}

int main(void)
{
    struct snib_value_options day = SNIB_INIT(snib_value_options);
    struct snib_client *client = NULL;
    struct seller seller[SELLERS] = {0};
    struct snib_error e = {0};
    struct stock stock;
    int64_t version;
    int sold = 0;
    day.ttl_ms = 86400000; /* forget the example after a day */
    set_stock(&stock, PIECES);
    if (snib_client_open(NULL, &client, &e) ||
        snib_value_try_for(client, "example:stock", 0, 5000, &day, fill, &stock,
                           NULL, &version, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        snib_client_free(client);
        return snib_err_exit(e.code);
    }
    for (int i = 0; i < SELLERS; i++) {
        seller[i].client = client;
        pthread_create(&seller[i].thread, NULL, sell, &seller[i]);
    }
    for (int i = 0; i < SELLERS; i++) {
        pthread_join(seller[i].thread, NULL);
        sold += seller[i].sold;
        if (seller[i].error.code) {
            e = seller[i].error;
        }
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    printf("sold %d of %d\n", sold, PIECES);
    snib_client_free(client);
    return snib_err_exit(e.code);
}
