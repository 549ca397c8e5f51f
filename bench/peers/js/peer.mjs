// A peer of ./dev bench --peers: node-redlock and redis-semaphore, over ioredis.
import { Redis } from "ioredis";
import { once } from "node:events";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";

const LEASE = 30000;
const [library, port, tasks, name, seconds] = process.argv.slice(2);
const client = new Redis({ port: Number(port) });

const libraries = {
  redlock() {
    const locks = new Redlock([client], { retryCount: -1 });
    return (one) => async () => {
      const lock = await locks.acquire([one], LEASE);
      await lock.release();
    };
  },
  "redis-semaphore"() {
    return (one) => async () => {
      const lock = new Mutex(client, one, {
        lockTimeout: LEASE,
        acquireTimeout: 1e9,
      });
      await lock.acquire();
      await lock.release();
    };
  },
};

const section = libraries[library]();
const sections = Array.from({ length: Number(tasks) }, (_, i) =>
  section(name.replace("%d", i)),
);
for (const one of sections) {
  await one();
}
console.log("ready");
await once(process.stdin, "data");
const end = performance.now() + Number(seconds) * 1000;
let sum = 0;
await Promise.all(
  sections.map(async (one) => {
    while (performance.now() < end) {
      await one();
      sum++;
    }
  }),
);
console.log(sum);
process.exit(0);
