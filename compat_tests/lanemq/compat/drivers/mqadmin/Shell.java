import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs mqadmin commands one after the other in one JVM, as a start of it costs a second.
 *
 * <p>A JSON object per line on stdin asks for one ("run", with "arguments"), a JSON object per line
 * on stdout answers with what the command printed ("out") and with its errors ("err"). mqadmin
 * would keep its command objects, and some of those their closed clients: each gets new ones.
 * A command that does not end by itself is interrupted after "seconds".
 */
public final class Shell {
    private static final PrintStream WIRE = System.out;
    private static final long INTERRUPTED_MS = 20000;
    private static final String VERSION = "@VERSION@";

    public static void main(String[] unused) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            Map<String, Object> reply = new HashMap<>();
            reply.put("id", asked.get("id"));
            if (asked.getString("command").equals("run")) {
                reply.put("result", run(asked));
            } else if (asked.getString("command").equals("names")) {
                reply.put("result", names());
            } else {
                reply.put("not_applicable", "mqadmin " + VERSION + " is a tool, and has no "
                    + asked.getString("command"));
            }
            WIRE.write((JSON.toJSONString(reply) + "\n").getBytes(StandardCharsets.UTF_8));
            WIRE.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> run(JSONObject asked) throws Exception {
        String[] arguments = asked.getJSONArray("arguments").toArray(new String[0]);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        Thread command = new Thread(() -> {
            try {
                forgetCommands();
                MQAdminStartup.main0(arguments, null);
            } catch (Throwable e) {
                e.printStackTrace();
            }
        });
        command.setDaemon(true);
        command.start();
        long patienceMs = asked.containsKey("seconds")
            ? asked.getLongValue("seconds") * 1000 : Long.MAX_VALUE;
        for (long begun = System.currentTimeMillis();
                command.isAlive() && System.currentTimeMillis() - begun < patienceMs; ) {
            hurryShutdown(command);
            command.join(30);
        }
        command.interrupt();
        command.join(INTERRUPTED_MS);
        System.out.flush();
        System.err.flush();
        Map<String, Object> result = new HashMap<>();
        result.put("out", printed.toString("UTF-8"));
        result.put("err", errors.toString("UTF-8"));
        return result;
    }

    private static List<String> names() throws Exception {
        forgetCommands();
        MQAdminStartup.initCommand();
        List<String> found = new ArrayList<>();
        for (Object command : commands()) {
            found.add(((SubCommand) command).commandName());
        }
        return found;
    }

    /** Empties mqadmin's list of commands; it is filled at each run. */
    private static void forgetCommands() throws IllegalAccessException {
        commands().clear();
    }

    /** Returns the list, whatever a release calls it. */
    private static List<?> commands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                return (List<?>) field.get(null);
            }
        }
        throw new IllegalStateException("mqadmin has no list of commands");
    }

    /**
     * A client of 5.x that shuts down waits for a thread of its own, which may sleep for three
     * seconds more. It is woken here; the command has printed everything by then.
     */
    private static void hurryShutdown(Thread command) {
        for (StackTraceElement frame : command.getStackTrace()) {
            if (frame.getClassName().endsWith("common.ServiceThread")) {
                for (Thread thread : Thread.getAllStackTraces().keySet()) {
                    if (thread.getName().equals("NettyEventExecutor")) {
                        thread.interrupt();
                    }
                }
                return;
            }
        }
    }
}
