/* store/zookeeper/errors.c — ZooKeeper's errors, in words that say what to do. */
#include <stdio.h>

#include "store/zookeeper/zookeeper_i.h"

struct errors_row {
    int32_t zk;
    snib_err err;
    const char *before, *behind; /* the path */
};

static const struct errors_row errors_rows[] = {
    {SNIB__ZK_NO_AUTH, SNIB_ERR_DENIED, "no right to ",
     "; log in as who may (zookeeper://USER:PASSWORD@HOST), or give the rights "
     "cdrwa there (zkCli.sh setAcl)"},
    {SNIB__ZK_QUOTA, SNIB_ERR_STORE, "the quota of ", " is used up"},
    {SNIB__ZK_UNIMPLEMENTED, SNIB_ERR_CONFIG, "the server cannot make ",
     "; ZooKeeper 3.5 or later is needed"},
    {SNIB__ZK_READ_ONLY, SNIB_ERR_STORE,
     "the server finds no majority and only reads; it cannot change ", ""},
    {SNIB__ZK_SASL, SNIB_ERR_DENIED,
     "the server wants a login by SASL, which is not supported, before ", ""},
    {SNIB__ZK_NO_CHILDREN, SNIB_ERR_CONFIG, "nothing can be made in ",
     ", which goes with its session; name another path in the URL"},
    {SNIB__ZK_TOO_LONG, SNIB_ERR_LIMIT, "what stands in ",
     " is more than 4 MB of names"},
    {SNIB__ZK_NO_NODE, SNIB_ERR_STORE, "somebody removes ", " again and again"},
    {SNIB__ZK_BAD_VERSION, SNIB_ERR_STORE, "somebody changes ",
     " again and again"},
};

snib_err snib__zoo_words(const struct snib__zoo *z, int32_t zk,
                         const char *path, char *ret, size_t size)
{
    const char *address = z->out->conn[z->session.at]->address;
    const char *shown = path && *path ? path : "/";
    for (size_t i = 0; i < sizeof errors_rows / sizeof errors_rows[0]; i++) {
        const struct errors_row *row = &errors_rows[i];
        if (row->zk == zk) {
            snprintf(ret, size, "%.60s: %s%.60s%s", address, row->before, shown,
                     row->behind);
            return row->err;
        }
    }
    snprintf(ret, size, "%.60s: ZooKeeper's error %d, about %.100s", address,
             zk, shown);
    return SNIB_ERR_STORE;
}
