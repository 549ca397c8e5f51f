/* core/url_show.h — a URL as it may be shown; for core/url.c. */
#ifndef SNIB__URL_SHOW_H
#define SNIB__URL_SHOW_H

#include "core/url.h"

/* What stands in place of a secret. */
#define SNIB__URL_MASK "***"

/* Writes the shown spelling to `to`, and sets url->safe. It takes at most three
 * bytes for one of the decoded parts, and for each part a mask, brackets and
 * separators. opaque: "scheme:path", without authority. */
void snib__url_show(struct snib__url *, bool opaque, char *to);

#endif
