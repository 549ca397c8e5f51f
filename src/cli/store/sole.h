/* sole.h — says that the default lock file is one user's only. */
#ifndef SOLE_H
#define SOLE_H

/* For root, or a user of sudo, who uses the default file of their own (url: as
 * snib_client_url returns it): other users of this host are not excluded by it.
 * Said on a terminal, once a boot. */
void sole_tell(const char *url);

#endif
