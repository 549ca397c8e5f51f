/* sole.h — saying that the default lock file is one user's only. */
#ifndef SOLE_H
#define SOLE_H

/* Root, or somebody by sudo, who uses the default file of his own (url: as
 * snib_client_url has it): other users of this host are not excluded by it.
 * Said on a terminal, once a boot. */
void sole_tell(const char *url);

#endif
