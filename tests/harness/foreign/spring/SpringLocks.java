/* Spring Integration's own client at one lock, for tests: takes URL USER NAME TTL_MS
 * (the JDBC URL; for how long a lock stands), says "ready", and does what it reads:
 *
 *     lock        locked: as soon as it can be had, asking every 100 ms
 *     try         locked, or refused
 *     unlock      unlocked
 *     renew       renewed
 *     count F N   counted N: each time adds one to the file F under the lock, by
 *                 reading, a pause, writing
 *
 * What cannot be done is "error TEXT".
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.jdbc.lock.DefaultLockRepository;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

public final class SpringLocks {
    private static JdbcLockRegistry registry;
    private static String name;
    private static Lock lock;

    private static String count(Path file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            lock.lock();
            int number = Integer.parseInt(Files.readString(file).trim());
            Thread.sleep(2);
            Files.writeString(file, number + 1 + "\n");
            lock.unlock();
        }
        return "counted " + times;
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "lock":
                lock.lock();
                return "locked";
            case "try":
                return lock.tryLock() ? "locked" : "refused";
            case "unlock":
                lock.unlock();
                return "unlocked";
            case "renew":
                registry.renewLock(name);
                return "renewed";
            case "count":
                return count(Path.of(words[1]), Integer.parseInt(words[2]));
            default:
                return "error what?";
        }
    }

    public static void main(String[] args) throws Exception {
        SingleConnectionDataSource source =
            new SingleConnectionDataSource(args[0], args[1], "", true);
        DefaultLockRepository repository = new DefaultLockRepository(source);
        repository.setTimeToLive(Integer.parseInt(args[3]));
        repository.setTransactionManager(
            new DataSourceTransactionManager(source));
        repository.afterPropertiesSet();
        repository.afterSingletonsInstantiated();
        registry = new JdbcLockRegistry(repository);
        name = args[2];
        lock = registry.obtain(name);
        source.getConnection();
        System.out.println("ready");
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (Exception e) {
                System.out.println("error " + e.toString().split("\n")[0]);
            }
        }
    }
}
