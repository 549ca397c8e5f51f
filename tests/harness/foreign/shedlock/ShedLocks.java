/* ShedLock's own client at one lock, for tests: takes URL USER NAME MOST_MS (the
 * JDBC URL; how long a lock lasts at most), says "ready", and does what it reads:
 *
 *     lock        locked: as soon as it can be had, asking every 10 ms
 *     try         locked, or refused
 *     unlock      unlocked
 *     extend MS   extended, or refused
 *     count F N   counted N: each time adds one to the file F under the lock, by
 *                 reading, a pause, writing
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

public final class ShedLocks {
    private static LockProvider provider;
    private static String name;
    private static Duration most;
    private static SimpleLock held;

    private static boolean take() {
        Optional<SimpleLock> lock = provider.lock(
            new LockConfiguration(Instant.now(), name, most, Duration.ZERO));
        held = lock.orElse(held);
        return lock.isPresent();
    }

    private static void lock() throws Exception {
        while (!take()) {
            Thread.sleep(10);
        }
    }

    private static String extend(long ms) {
        Optional<SimpleLock> lock =
            held.extend(Duration.ofMillis(ms), Duration.ZERO);
        held = lock.orElse(held);
        return lock.isPresent() ? "extended" : "refused";
    }

    private static String count(Path file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            lock();
            int number = Integer.parseInt(Files.readString(file).trim());
            Thread.sleep(2);
            Files.writeString(file, number + 1 + "\n");
            held.unlock();
        }
        return "counted " + times;
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "lock":
                lock();
                return "locked";
            case "try":
                return take() ? "locked" : "refused";
            case "unlock":
                held.unlock();
                return "unlocked";
            case "extend":
                return extend(Long.parseLong(words[1]));
            case "count":
                return count(Path.of(words[1]), Integer.parseInt(words[2]));
            default:
                return "error what?";
        }
    }

    public static void main(String[] args) throws Exception {
        SingleConnectionDataSource source =
            new SingleConnectionDataSource(args[0], args[1], "", true);
        provider = new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(source))
                .usingDbTime()
                .build());
        name = args[2];
        most = Duration.ofMillis(Long.parseLong(args[3]));
        source.getConnection();
        System.out.println("ready");
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (Exception e) {
                System.out.println("error " + e);
            }
        }
    }
}
