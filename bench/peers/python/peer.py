"""A peer of ./dev bench --peers: redis-py's Lock, a connection a thread."""
import sys
import threading
import time

import redis

LEASE = 30
port, tasks, name, seconds = sys.argv[2:6]
client = redis.Redis(port=int(port))
start, stop = threading.Event(), threading.Event()
done = [0] * int(tasks)


def section(one):
    lock = client.lock(one, timeout=LEASE)
    lock.acquire()
    lock.release()


def task(i):
    one = name.replace("%d", str(i))
    start.wait()
    while not stop.is_set():
        section(one)
        done[i] += 1


threads = [threading.Thread(target=task, args=(i,)) for i in range(len(done))]
for i, thread in enumerate(threads):
    section(name.replace("%d", str(i)))
    thread.start()
print("ready", flush=True)
sys.stdin.readline()
start.set()
time.sleep(float(seconds))
stop.set()
for thread in threads:
    thread.join()
print(sum(done), flush=True)
