import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Runs mqadmin commands one after the other in one JVM, as a start of it costs a second.
 *
 * <p>A line on stdin is one command, its words parted by tabs. The answer is a line with two
 * numbers, then so many bytes of what the command printed, then of its errors. mqadmin keeps
 * its command objects, and some of those their closed clients: each name works once.
 */
public final class Shell {
    public static void main(String[] unused) throws Exception {
        PrintStream out = System.out;
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true, "UTF-8"));
            System.setErr(new PrintStream(errors, true, "UTF-8"));
            try {
                org.apache.rocketmq.tools.command.MQAdminStartup.main0(line.split("\t"), null);
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
}
