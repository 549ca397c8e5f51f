/* store/file/file.h — locks in a mapped file of this host.
 *
 * "file:PATH". Several processes of one user share it on one host, without a
 * server and without a lock of the file: one compare-and-swap commits a step.
 * docs/FILE.md describes the file and what is promised. */
#ifndef SNIB__FILE_H
#define SNIB__FILE_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__file_ops;

#endif
