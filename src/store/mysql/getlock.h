/* store/mysql/getlock.h — the server's named locks, for ?dialect=getlock:
 * GET_LOCK(), as programs take them that have nothing but SQL
 * (store/sql/native.h; docs/GET_LOCK.md). A session that says nothing is ended
 * after its wait_timeout, in whole seconds. */
#ifndef SNIB__MYSQL_GETLOCK_H
#define SNIB__MYSQL_GETLOCK_H

struct snib__sql_native_ops;
extern const struct snib__sql_native_ops snib__my_getlock;

#endif
