"""A session of a database's client in Python: a statement a line on stdin, the first
value of its answer a line on stdout.

    bare.py postgres|mysql PORT
"""

import sys


def session(kind, port):
    if kind == "postgres":
        import psycopg2
        made = psycopg2.connect(host="127.0.0.1", port=port, user="snib",
                                dbname="snib")
        made.autocommit = True
        return made
    import pymysql
    return pymysql.connect(host="127.0.0.1", port=port, user="snib",
                           database="snib", autocommit=True)


def said(value):
    if isinstance(value, bool):
        return "t" if value else "f"
    return "NULL" if value is None else str(value)


cursor = session(sys.argv[1], int(sys.argv[2])).cursor()
for line in sys.stdin:
    cursor.execute(line.rstrip("\n;"))
    print(said(cursor.fetchone()[0]), flush=True)
