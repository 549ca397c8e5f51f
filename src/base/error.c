/* base/error.c — names, texts and classes of errors; states and causes. */
#include "base/error.h"
#include "snib/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *name, *text;
    snib_class class_;
    int exit;
};

static const struct row rows[] = {
#define ROW(n, c, e, t) [SNIB_ERR_##n] = {#n, t, SNIB_CLASS_##c, e},
    SNIB__ERRORS(ROW)
#undef ROW
};

static const struct row *error_row_of(snib_err err)
{
    static const struct row none = {"?", "unknown error code",
                                    SNIB_CLASS_INTERNAL, 70};
    size_t i = (size_t)err;
    return i < sizeof rows / sizeof rows[0] ? &rows[i] : &none;
}

const char *snib_err_name(snib_err err)
{
    return error_row_of(err)->name;
}

const char *snib_err_text(snib_err err)
{
    return error_row_of(err)->text;
}

snib_class snib_err_class(snib_err err)
{
    return error_row_of(err)->class_;
}

int snib_err_exit(snib_err err)
{
    return error_row_of(err)->exit;
}

const char *snib_state_text(snib_state s)
{
    switch (s) {
    case SNIB_STATE_HELD:
        return "held";
    case SNIB_STATE_AT_RISK:
        return "at risk";
    case SNIB_STATE_LOST:
        return "lost";
    case SNIB_STATE_RELEASED:
        return "released";
    }
    return "?";
}

const char *snib_cause_text(snib_cause r)
{
    switch (r) {
    case SNIB_CAUSE_NONE:
        return "";
    case SNIB_CAUSE_EXPIRED:
        return "expired";
    case SNIB_CAUSE_STOLEN:
        return "stolen";
    case SNIB_CAUSE_UNREACHABLE:
        return "unreachable";
    case SNIB_CAUSE_PAUSED:
        return "paused";
    case SNIB_CAUSE_REVOKED:
        return "revoked";
    case SNIB_CAUSE_HOLD_MAX:
        return "hold-max";
    case SNIB_CAUSE_FORGOTTEN:
        return "forgotten";
    }
    return "?";
}

const char *snib_version(void)
{
    return SNIB_VERSION;
}

snib_err snib__fail(struct snib_error *e, snib_err code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        e->code = code;
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

snib_err snib__fail_plain(struct snib_error *e, snib_err code)
{
    if (e) { /* each release says OK so */
        const char *text = snib_err_text(code);
        size_t size = strlen(text) + 1;
        e->code = code;
        memcpy(e->text, text, size < sizeof e->text ? size : sizeof e->text);
        e->text[sizeof e->text - 1] = 0;
    }
    return code;
}

snib_err snib__ok(struct snib_error *e)
{
    if (e) {
        e->code = SNIB_ERR_OK;
        e->text[0] = 0;
    }
    return SNIB_ERR_OK;
}
