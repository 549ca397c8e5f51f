import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * How many sections of Curator's mutex its clients do, each with a thread, a
 * session and a connection of its own; by lines on stdin, for bench/foreign.c.
 *
 * Sections HOST:PORT PATH CLIENTS
 *
 *     sections FROM TO    sections N: they do sections until TO (ms since 1970),
 *                         and count those that they entered from FROM on
 */
public final class Sections {
    private static final int SESSION_MS = 30000;
    private static final int CONNECT_MS = 15000;

    private static long count(InterProcessMutex mutex, long from, long to)
            throws Exception {
        long done = 0;
        while (System.currentTimeMillis() < to) {
            mutex.acquire();
            long at = System.currentTimeMillis();
            if (from <= at && at < to) {
                done++;
            }
            mutex.release();
        }
        return done;
    }

    private static long countAll(ExecutorService threads,
            List<InterProcessMutex> mutexes, long from, long to)
            throws Exception {
        List<Callable<Long>> all = new ArrayList<>();
        for (InterProcessMutex mutex : mutexes) {
            all.add(() -> count(mutex, from, to));
        }
        long sum = 0;
        for (Future<Long> one : threads.invokeAll(all)) {
            sum += one.get();
        }
        return sum;
    }

    private static List<InterProcessMutex> connect(String address, String path,
            int clients) throws Exception {
        List<InterProcessMutex> mutexes = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    address, SESSION_MS, CONNECT_MS,
                    new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            mutexes.add(new InterProcessMutex(client, path));
        }
        return mutexes;
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void serve(String[] args) throws Exception {
        int clients = Integer.parseInt(args[2]);
        List<InterProcessMutex> mutexes = connect(args[0], args[1], clients);
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = lines.readLine(); line != null;
                line = lines.readLine()) {
            String[] words = line.split(" ");
            say("sections " + countAll(threads, mutexes,
                    Long.parseLong(words[1]), Long.parseLong(words[2])));
        }
    }

    public static void main(String[] args) {
        try {
            serve(args);
        } catch (Exception e) {
            say("error " + e);
            System.exit(1);
        }
        System.exit(0);
    }
}
