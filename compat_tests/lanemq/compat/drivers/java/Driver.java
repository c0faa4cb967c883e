import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Drives one release of the Java client: a JSON object per line on stdin asks for one call of its
 * API, a JSON object per line on stdout answers it or reports a received message. Nothing is
 * decided here; what should happen is known by whoever asks.
 *
 * The file is common to all releases: package names are replaced before it is compiled, and APIs
 * that some release lacks are in Feature*.java, which are compiled where they exist.
 */
public final class Driver {
    /** One command: arguments in, a JSON-able result out. */
    interface Command {
        Object run(JSONObject arguments) throws Throwable;
    }

    /** The API of this release has no such thing. */
    static final class Absent extends Exception {
        Absent(String reason) {
            super(reason);
        }
    }

    /** How a listener's subscription by SQL92 is made. */
    interface SqlSubscriber {
        void subscribe(DefaultMQPushConsumer consumer, String topic, String sql) throws Exception;
    }

    static final String VERSION = "@VERSION@";
    private static final PrintStream WIRE =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false);

    final Map<String, Command> commands = new HashMap<String, Command>();
    /** null in a release without it. */
    SqlSubscriber sqlSubscriber;
    /** Whatever a command opened, by the name it was given. */
    final Map<String, Object> handles = new ConcurrentHashMap<String, Object>();

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // what libraries print must not get between our lines
        Driver driver = new Driver();
        Sending.register(driver);
        Consuming.register(driver);
        Pulling.register(driver);
        for (String feature : new String[] {
            "FeatureBatches", "FeatureLitePull", "FeatureLogicalQueues", "FeatureOldTransactions",
            "FeatureRequests", "FeatureSelectors", "FeatureTimers", "FeatureTransactions"}) {
            driver.registerIfPresent(feature);
        }
        driver.serve();
    }

    private void registerIfPresent(String feature) throws Exception {
        try {
            Class.forName(feature).getDeclaredMethod("register", Driver.class).invoke(null, this);
        } catch (ClassNotFoundException thisReleaseHasIt) {
            System.err.println(feature + " is not in " + VERSION);
        }
    }

    private void serve() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final JSONObject request = JSON.parseObject(line);
            threads.execute(new Runnable() {
                public void run() {
                    answer(request);
                }
            });
        }
        Runtime.getRuntime().halt(0); // whoever drove us is gone
    }

    private void answer(JSONObject request) {
        Map<String, Object> reply = new HashMap<String, Object>();
        reply.put("id", request.get("id"));
        try {
            Command command = commands.get(request.getString("command"));
            if (command == null) {
                throw new Absent("the API of the Java client " + VERSION + " has no "
                    + request.getString("command"));
            }
            reply.put("result", command.run(request));
        } catch (Absent absent) {
            reply.put("not_applicable", absent.getMessage());
        } catch (Throwable error) {
            error.printStackTrace();
            reply.put("error", error.getClass().getSimpleName());
            reply.put("code", codeOf(error));
            reply.put("message", String.valueOf(error.getMessage()));
        }
        write(reply);
    }

    static void write(Map<String, Object> line) {
        String text = JSON.toJSONString(line);
        synchronized (WIRE) {
            try {
                WIRE.write((text + "\n").getBytes("UTF-8"));
            } catch (java.io.IOException gone) {
                Runtime.getRuntime().halt(1);
            }
            WIRE.flush();
        }
    }

    @SuppressWarnings("unchecked")
    <T> T handle(JSONObject arguments, String key) {
        Object handle = handles.get(arguments.getString(key));
        if (handle == null) {
            throw new IllegalArgumentException("nothing open as " + arguments.getString(key));
        }
        return (T) handle;
    }

    /** The response code a server gave, where the client kept it. */
    private static Integer codeOf(Throwable error) {
        Object code = optional(error, "getResponseCode");
        return code instanceof Integer ? (Integer) code : null;
    }

    /** Calls a getter that not every release has. */
    static Object optional(Object target, String getter) {
        try {
            return target.getClass().getMethod(getter).invoke(target);
        } catch (ReflectiveOperationException absent) {
            return null;
        }
    }

    /** Calls a setter of an int or a String that not every release has, or not by this name. */
    static void tune(Object target, String setter, Object value) {
        Class<?> type = value instanceof Integer ? int.class : value.getClass();
        try {
            Method method = target.getClass().getMethod(setter, type);
            method.invoke(target, value);
        } catch (ReflectiveOperationException absent) {
            System.err.println(VERSION + " has no " + setter);
        }
    }

    /** What every client object gets: where the cluster is, an identity of its own, and haste. */
    void configure(Object client, JSONObject arguments) {
        tune(client, "setNamesrvAddr", arguments.getString("name_server"));
        tune(client, "setInstanceName", arguments.getString("name"));
        tune(client, "setPollNameServerInteval", 1000);
        tune(client, "setPollNameServerInterval", 1000);
        tune(client, "setHeartbeatBrokerInterval", 2000);
        tune(client, "setPersistConsumerOffsetInterval", 1000);
        tune(client, "setMqClientApiTimeout", 15000); // many clients share a small machine
    }

    static Message message(JSONObject from) {
        Message message = new Message(from.getString("topic"), bytes(from.getString("body")));
        if (from.containsKey("tags")) {
            message.setTags(from.getString("tags"));
        }
        if (from.containsKey("keys")) {
            message.setKeys(from.getString("keys"));
        }
        if (from.containsKey("flag")) {
            message.setFlag(from.getIntValue("flag"));
        }
        if (from.containsKey("delay_level")) {
            message.setDelayTimeLevel(from.getIntValue("delay_level"));
        }
        if (from.containsKey("properties")) {
            for (Map.Entry<String, Object> property : from.getJSONObject("properties").entrySet()) {
                message.putUserProperty(property.getKey(), (String) property.getValue());
            }
        }
        return message;
    }

    static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> seen = new HashMap<String, Object>();
        seen.put("topic", message.getTopic());
        seen.put("body", base64(message.getBody()));
        seen.put("tags", message.getTags());
        seen.put("keys", message.getKeys());
        seen.put("flag", message.getFlag());
        seen.put("properties", new HashMap<String, String>(message.getProperties()));
        seen.put("queue_id", message.getQueueId());
        Object broker = optional(message, "getBrokerName");
        seen.put("broker_name", broker == null ? "" : broker);
        seen.put("queue_offset", message.getQueueOffset());
        seen.put("reconsume_times", message.getReconsumeTimes());
        seen.put("message_id", message.getMsgId());
        Object offsetId = optional(message, "getOffsetMsgId"); // earlier: the one and only id
        seen.put("offset_id", offsetId == null ? message.getMsgId() : offsetId);
        seen.put("born_timestamp_ms", message.getBornTimestamp());
        seen.put("store_timestamp_ms", message.getStoreTimestamp());
        return seen;
    }

    static byte[] bytes(String base64) {
        return Base64.getDecoder().decode(base64);
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes == null ? new byte[0] : bytes);
    }
}
