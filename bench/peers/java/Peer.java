// A peer of ./dev bench --peers: Redisson, its watchdog on, a thread a task.
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Peer {
    static volatile boolean stop;

    static void section(RLock lock) {
        lock.lock();
        lock.unlock();
    }

    public static void main(String[] args) throws Exception {
        int tasks = Integer.parseInt(args[2]);
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[1]);
        RedissonClient client = Redisson.create(config);
        CountDownLatch start = new CountDownLatch(1);
        AtomicLong sum = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            RLock lock = client.getLock(args[3].replace("%d", "" + i));
            for (int k = 0; k < 20000 / tasks; k++) { // let the JIT see it
                section(lock);
            }
            all.add(new Thread(() -> {
                long done = 0;
                try {
                    start.await();
                } catch (InterruptedException e) {
                    return;
                }
                for (; !stop; done++) {
                    section(lock);
                }
                sum.addAndGet(done);
            }));
            all.get(i).start();
        }
        System.out.println("ready");
        System.in.read();
        start.countDown();
        Thread.sleep((long) (Double.parseDouble(args[4]) * 1000));
        stop = true;
        for (Thread thread : all) {
            thread.join();
        }
        System.out.println(sum.get());
        System.exit(0);
    }
}
