import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * ZooKeeper's side of bench/registry-peers.ts: one warm process and one session, asynchronous calls
 * with so many outstanding. Arguments: host:port, number of records, the API that is searched for,
 * how many records have it. Reads the records from standard input, a path, a tab and JSON a line;
 * then tasks, "name outstanding operations ms" a line (0 operations: as many as the time allows), and
 * answers each with one line: the time of all and that of each operation, in ms.
 */
public final class ZooKeeperClient {
  private interface Call {
    void send(int index, Runnable done);
  }

  private static final int WALKS_MIN = 3;
  private static final int STEP = 7919;

  private final ZooKeeper zooKeeper;
  private final List<String> paths = new ArrayList<>();
  private final List<byte[]> records = new ArrayList<>();
  private final Set<String> made = new HashSet<>();
  private final String api;
  private final int expected;
  private final AtomicReference<String> failure = new AtomicReference<>();

  private ZooKeeperClient(ZooKeeper zooKeeper, String api, int expected) {
    this.zooKeeper = zooKeeper;
    this.api = api;
    this.expected = expected;
  }

  public static void main(String[] arguments) throws Exception {
    CountDownLatch connected = new CountDownLatch(1);
    Watcher watcher = event -> {
      if (event.getState() == Watcher.Event.KeeperState.SyncConnected) connected.countDown();
    };
    ZooKeeper zooKeeper = new ZooKeeper(arguments[0], 30_000, watcher);
    connected.await();
    ZooKeeperClient client =
        new ZooKeeperClient(zooKeeper, arguments[2], Integer.parseInt(arguments[3]));
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (int left = Integer.parseInt(arguments[1]); left > 0; left--) {
      String[] parts = input.readLine().split("\t", 2);
      client.paths.add(parts[0]);
      client.records.add(parts[1].getBytes(StandardCharsets.UTF_8));
    }
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] task = line.split(" ");
      int outstanding = Integer.parseInt(task[1]);
      int operations = Integer.parseInt(task[2]);
      System.out.println(client.perform(task[0], outstanding, operations, Long.parseLong(task[3])));
    }
  }

  private String perform(String task, int outstanding, int operations, long msMax)
      throws Exception {
    switch (task) {
      case "create":
        return measure(this::create, outstanding, operations, Long.MAX_VALUE / 1_000_000);
      case "get":
        measure(this::get, outstanding, operations, msMax / 4);
        return measure(this::get, outstanding, operations, msMax);
      case "list":
        return measure(this::list, outstanding, operations, msMax);
      case "set":
        return measure(this::set, outstanding, operations, msMax);
      case "delete":
        return measure(this::delete, outstanding, operations, Long.MAX_VALUE / 1_000_000);
      case "walk":
        return walks(msMax);
      default:
        throw new IllegalArgumentException(task);
    }
  }

  /** A session's calls are done in their order, so that nobody waits for the paths above. */
  private void create(int index, Runnable done) {
    String path = paths.get(index);
    for (int at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) {
      String above = path.substring(0, at);
      if (made.add(above)) create(above, new byte[0], () -> {});
    }
    made.add(path);
    create(path, records.get(index), done);
  }

  private void create(String path, byte[] data, Runnable done) {
    zooKeeper.create(path, data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
        (code, at, context, name) -> check(code, at, done), null);
  }

  private void get(int index, Runnable done) {
    String path = paths.get((int) ((long) index * STEP % paths.size()));
    zooKeeper.getData(path, false, (code, at, context, data, stat) -> check(code, at, done), null);
  }

  private void list(int index, Runnable done) {
    int service = (int) ((long) index * STEP % (paths.size() / 10)) * 10;
    zooKeeper.getChildren(paths.get(service) + "/components", false,
        (code, at, context, children) -> check(code, at, done), null);
  }

  private void set(int index, Runnable done) {
    int at = (int) ((long) index * STEP % paths.size());
    zooKeeper.setData(paths.get(at), records.get(at), -1,
        (code, path, context, stat) -> check(code, path, done), null);
  }

  /** Containers' records, from the end: they have no children. */
  private void delete(int index, Runnable done) {
    int at = paths.size() - 1 - index - index / 9;
    zooKeeper.delete(paths.get(at), -1, (code, path, context) -> check(code, path, done), null);
  }

  private void check(int code, String path, Runnable done) {
    if (code != KeeperException.Code.OK.intValue()) {
      failure.compareAndSet(null, KeeperException.Code.get(code) + " of " + path);
    }
    done.run();
  }

  private String measure(Call call, int outstanding, int operations, long msMax) throws Exception {
    Semaphore free = new Semaphore(outstanding);
    List<Double> times = new ArrayList<>();
    long started = System.nanoTime();
    for (int sent = 0; operations == 0 || sent < operations; sent++) {
      if ((System.nanoTime() - started) / 1_000_000 >= msMax) break;
      free.acquire();
      long at = System.nanoTime();
      call.send(sent, () -> {
        double ms = (System.nanoTime() - at) / 1e6;
        synchronized (times) {
          times.add(ms);
        }
        free.release();
      });
    }
    free.acquire(outstanding);
    return answer(started, times);
  }

  /** A search is a walk: the server cannot look into records. */
  private String walks(long msMax) throws Exception {
    List<Double> times = new ArrayList<>();
    long started = System.nanoTime();
    while (times.size() < WALKS_MIN || (System.nanoTime() - started) / 1_000_000 < msMax) {
      long at = System.nanoTime();
      Walk walk = new Walk();
      walk.visit("/users");
      walk.finished.await();
      if (walk.found.get() != expected) throw new IllegalStateException("found " + walk.found);
      times.add((System.nanoTime() - at) / 1e6);
    }
    return answer(started, times);
  }

  private final class Walk {
    final CountDownLatch finished = new CountDownLatch(1);
    final AtomicInteger found = new AtomicInteger();
    private final AtomicInteger waiting = new AtomicInteger();
    private final byte[] wanted = api.getBytes(StandardCharsets.UTF_8);

    void visit(String path) {
      waiting.incrementAndGet();
      zooKeeper.getData(path, false, (code, at, context, data, stat) -> {
        if (contains(data)) found.incrementAndGet();
        // Whoever has no children is not asked for them.
        if (stat.getNumChildren() > 0) descend(path);
        leave();
      }, null);
    }

    private void descend(String path) {
      waiting.incrementAndGet();
      zooKeeper.getChildren(path, false, (code, at, context, children) -> {
        for (String child : children) visit(path + "/" + child);
        leave();
      }, null);
    }

    private void leave() {
      if (waiting.decrementAndGet() == 0) finished.countDown();
    }

    /** A search for bytes, which costs less than reading JSON would. */
    private boolean contains(byte[] data) {
      for (int from = 0; data != null && from + wanted.length <= data.length; from++) {
        int at = 0;
        while (at < wanted.length && data[from + at] == wanted[at]) at++;
        if (at == wanted.length) return true;
      }
      return false;
    }
  }

  private String answer(long started, List<Double> times) {
    double allMs = (System.nanoTime() - started) / 1e6;
    if (failure.get() != null) throw new IllegalStateException(failure.get());
    StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%.3f", allMs));
    for (double ms : times) text.append(String.format(Locale.ROOT, " %.3f", ms));
    return text.toString();
  }
}
