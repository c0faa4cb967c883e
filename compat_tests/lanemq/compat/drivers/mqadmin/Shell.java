import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after the other in one JVM, as a start of it costs a second.
 *
 * <p>A line on stdin is one command, its words parted by tabs. The answer is a line with two
 * numbers, then so many bytes of what the command printed, then of its errors. mqadmin would
 * keep its command objects, and some of those their closed clients: each line gets new ones.
 */
public final class Shell {
    public static void main(String[] unused) throws Exception {
        hurryShutdowns(Thread.currentThread());
        PrintStream out = System.out;
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true, "UTF-8"));
            System.setErr(new PrintStream(errors, true, "UTF-8"));
            try {
                forgetCommands();
                MQAdminStartup.main0(line.split("\t"), null);
            } catch (Throwable e) {
                e.printStackTrace();
            }
            System.out.flush();
            System.err.flush();
            out.println(printed.size() + " " + errors.size());
            printed.writeTo(out);
            errors.writeTo(out);
            out.flush();
        }
        System.exit(0);
    }

    /** Empties mqadmin's list of commands, whatever a release calls it; it is filled at each run. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    /**
     * A client of 5.x that shuts down waits for a thread of its own, which may sleep for three
     * seconds more. It is woken here; the command has printed everything by then.
     */
    private static void hurryShutdowns(Thread commands) {
        Thread waker = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(30);
                } catch (InterruptedException e) {
                    return;
                }
                for (StackTraceElement frame : commands.getStackTrace()) {
                    if (frame.getClassName().endsWith("common.ServiceThread")) {
                        for (Map.Entry<Thread, StackTraceElement[]> entry :
                                Thread.getAllStackTraces().entrySet()) {
                            if (entry.getKey().getName().equals("NettyEventExecutor")) {
                                entry.getKey().interrupt();
                            }
                        }
                        break;
                    }
                }
            }
        });
        waker.setDaemon(true);
        waker.start();
    }
}
