/* examples/policy.c — the lock declared once, put around a function.
 *
 * "pay" may run once at a time for an order. While it runs for order 4711, a
 * second payment of the same order is turned away by the policy, one of
 * another order is not. */
#include <stdio.h>

#include <snib.h>
#include <snib/policy.h>
#include <snib/sys.h>

static struct snib_client *client;

static int turned_away(void *data, const struct snib_error *why)
{
    printf("  order %s: turned away (%s)\n", (const char *)data,
           snib_err_text(why->code));
    return 1;
}

static const struct snib_policy pay_once = {
    .size = sizeof(struct snib_policy),
    .name = "pay",
    .key = "order:{order_no}",
    .on_busy = SNIB_ON_BUSY_CALL,
    .busy = turned_away,
};

static int charge(void *data, struct snib_grant grant)
{
    printf("  order %s: charged, fencing token %s\n", (const char *)data,
           grant.token > 0 ? "at hand" : "missing");
    return 0;
}

static int pay(char *order_no, int (*body)(void *, struct snib_grant))
{
    const char *const fields[] = {"order_no", order_no, NULL};
    struct snib_error e;
    int result = -1;
    snib_err err =
        snib_policy_try(client, &pay_once, fields, body, order_no, &result, &e);
    if (err) {
        fprintf(stderr, "%s: %s\n", snib_err_name(err), e.text);
    }
    return result;
}

/* Another process would do this; an owner of its own is what makes it a
 * stranger to the thread that holds 4711. */
static int charge_slowly(void *data, struct snib_grant grant)
{
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options other = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock;
    struct snib_grant g;
    struct snib_error e;
    other.owner = snib_owner_new();
    if (snib_lock_new(client, "pay:order:4711", &options, &lock, &e) ==
        SNIB_ERR_OK) {
        if (snib_try(lock, &other, &g, &e) == SNIB_ERR_BUSY) {
            turned_away(data, &e);
        }
        snib_lock_free(lock);
    }
    pay("4712", charge);
    return charge(data, grant);
}

int main(void)
{
    struct snib_error e;
    if (snib_client_open(NULL, &client, &e)) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
        return snib_err_exit(e.code);
    }
    puts("paying 4711; meanwhile 4711 again, and 4712:");
    int result = pay("4711", charge_slowly);
    snib_client_free(client);
    return result;
}
