/* values.c — versioned values. */
#define _GNU_SOURCE
#include "driver.h"
#include "snib/value.h"
#include <string.h>

snib_err do_value_get(struct command *command, struct line *line,
                      struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    size_t size;
    const char *name = text_of(command, "name", "", &size);
    struct snib_value *value;
    snib_err err = snib_value_get(client->client, name, size, &value, error);
    if (err == SNIB_ERR_OK) {
        line_int(line, "version", value->version);
        line_key(line, "bytes");
        put_bytes(line->file, value->bytes, value->size);
    }
    snib_value_free(value);
    return err;
}

snib_err do_value_put(struct command *command, struct line *line,
                      struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    size_t size, bytes_size;
    const char *name = text_of(command, "name", "", &size);
    const char *bytes = text_of(command, "bytes", "", &bytes_size);
    int64_t version;
    snib_err err = snib_value_put(
        client->client, name, size, int_of(command, "expected", 0), bytes,
        bytes_size, int_of(command, "ttl_ms", 60000), &version, error);
    line_int(line, "version", version);
    return err;
}

snib_err do_value_delete(struct command *command, struct line *line,
                         struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    size_t size;
    const char *name = text_of(command, "name", "", &size);
    int64_t version;
    snib_err err =
        snib_value_delete(client->client, name, size,
                          int_of(command, "expected", 0), &version, error);
    line_int(line, "version", version);
    return err;
}
