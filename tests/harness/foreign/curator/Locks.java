import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's locks by lines on stdin: see ../../foreign.py.
 *
 * Locks HOST:PORT PATH mutex|rw [SESSION_MS]
 */
public final class Locks {
    private static void count(InterProcessLock lock, Path path, int times)
            throws Exception {
        for (int i = 0; i < times; i++) {
            lock.acquire();
            int number = Integer.parseInt(Files.readString(path).trim());
            Thread.sleep(2);
            Files.writeString(path, number + 1 + "\n");
            lock.release();
        }
        say("counted " + times);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void run(InterProcessLock lock, InterProcessLock read,
            String[] words) throws Exception {
        switch (words[0]) {
            case "lock":
                lock.acquire();
                say("locked");
                break;
            case "try":
                say(lock.acquire(1, TimeUnit.MILLISECONDS) ? "locked" : "busy");
                break;
            case "unlock":
                lock.release();
                say("unlocked");
                break;
            case "read":
                read.acquire();
                say("locked");
                break;
            case "tryread":
                say(read.acquire(1, TimeUnit.MILLISECONDS) ? "locked" : "busy");
                break;
            case "unread":
                read.release();
                say("unlocked");
                break;
            case "count":
                count(lock, Paths.get(words[1]), Integer.parseInt(words[2]));
                break;
            default:
                say("error " + words[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        int session = args.length > 3 ? Integer.parseInt(args[3]) : 10000;
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0],
                session, 10000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        InterProcessReadWriteLock both =
                new InterProcessReadWriteLock(client, args[1]);
        boolean mutex = args[2].equals("mutex");
        InterProcessLock lock = mutex ? new InterProcessMutex(client, args[1])
                : both.writeLock();
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = lines.readLine(); line != null;
                line = lines.readLine()) {
            run(lock, both.readLock(), line.split(" "));
        }
        System.exit(0);
    }
}
