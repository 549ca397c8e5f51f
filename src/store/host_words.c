/* store/host_words.c — what an embedded store says of its host: that it does not
 * fit, or what of it is used up. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "store/host.h"

snib_err snib__host_fits(const struct snib__host *h, struct snib_error *reterr)
{
    if (h->timens) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "this process is in a time namespace with an offset "
                          "of its own; leases in a file need the host's "
                          "CLOCK_BOOTTIME");
    }
    if (!h->boot[0]) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "cannot read /proc/sys/kernel/random/boot_id; "
                          "leases in a file need it: mount /proc");
    }
    return SNIB_ERR_OK;
}

snib_err snib__host_lacks(int e, const char *what, struct snib_error *reterr)
{
    struct rlimit may = {0};
    switch (e) {
    case EMFILE:
        getrlimit(RLIMIT_NOFILE, &may);
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "%s cannot be opened: no descriptor is left of the "
                          "%llu that this process may have (ulimit -n); raise "
                          "that limit, or close some",
                          what, (unsigned long long)may.rlim_cur);
    case ENFILE:
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "%s cannot be opened: this machine has as many files "
                          "open as it may (sysctl fs.file-max)",
                          what);
    case ENOSPC:
    case EDQUOT:
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "no space left for %s: no block or no inode is free "
                          "on its file system, or in the quota (df, df -i, "
                          "quota)",
                          what);
    case ENOLCK: /* the kernel finds no memory for a lock */
    case ENOMEM:
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    default:
        return SNIB_ERR_OK;
    }
}

snib_err snib__host_cannot(int e, const char *what, struct snib_error *reterr,
                           const char *fmt, ...)
{
    char words[sizeof reterr->text];
    snib_err err = snib__host_lacks(e, what, reterr);
    va_list ap;
    if (err) {
        return err;
    }
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    return snib__fail(reterr, e == EIO ? SNIB_ERR_STORE : SNIB_ERR_CONFIG, "%s",
                      words);
}
