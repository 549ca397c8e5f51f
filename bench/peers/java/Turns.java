// Redisson behind Sentinels: one client that takes a lock again and again, and says
// when it had it: a line a grant, CLOCK_MONOTONIC in nanoseconds (failover.py).
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;

public class Turns {
    public static void main(String[] args) throws Exception {
        Config config = new Config();
        SentinelServersConfig servers = config.useSentinelServers();
        servers.setMasterName(args[0]);
        for (int i = 2; i < args.length; i++) {
            servers.addSentinelAddress("redis://127.0.0.1:" + args[i]);
        }
        RLock lock = Redisson.create(config).getLock(args[1]);
        for (;;) {
            try {
                lock.lock();
            } catch (Exception e) {
                System.err.println(e);
                Thread.sleep(50);
                continue;
            }
            System.out.println(System.nanoTime());
            try {
                lock.unlock();
            } catch (Exception e) {
                System.err.println(e);
            }
            Thread.sleep(2);
        }
    }
}
