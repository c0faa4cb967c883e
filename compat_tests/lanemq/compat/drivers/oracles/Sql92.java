// Judges expressions with the broker's own filter. A line of input is an expression and then the
// properties of a message, `name=value`, each part in base64 and all separated by blanks; the line
// of output is INVALID, TRUE, FALSE, NULL or ERROR.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;

public class Sql92 {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(judge(line.split(" ", -1)));
        }
        out.flush();
    }

    private static String judge(String[] parts) {
        final Map<String, Object> properties = new HashMap<>();
        for (int i = 1; i < parts.length; i++) {
            String[] pair = parts[i].split("=", 2);
            properties.put(text(pair[0].replace('.', '=')), text(pair[1].replace('.', '=')));
        }
        Expression expression;
        try {
            expression = SelectorParser.parse(text(parts[0]));
        } catch (MQFilterException error) {
            return "INVALID";
        }
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return value == null ? "NULL" : value instanceof Boolean ? (Boolean) value ? "TRUE" : "FALSE" : "ERROR";
        } catch (Throwable error) {
            return "ERROR";
        }
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
