import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Producers: sends in every mode, and the queries that a producer can make. */
final class Sending {
    private final Driver driver;

    private Sending(Driver driver) {
        this.driver = driver;
    }

    static void register(Driver driver) {
        final Sending sending = new Sending(driver);
        driver.commands.put("open_producer", sending::open);
        driver.commands.put("close_producer", sending::close);
        driver.commands.put("send", sending::send);
        driver.commands.put("query_by_key", sending::queryByKey);
        driver.commands.put("view_message", sending::view);
        driver.commands.put("query_by_unique_key", sending::queryByUniqueKey);
    }

    private Object open(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(arguments.getString("group"));
        driver.configure(producer, arguments);
        producer.setSendMsgTimeout(15000); // many clients share a small machine
        if (arguments.containsKey("max_message_bytes")) {
            producer.setMaxMessageSize(arguments.getIntValue("max_message_bytes"));
        }
        producer.start();
        driver.handles.put(arguments.getString("name"), producer);
        return true;
    }

    private Object close(JSONObject arguments) {
        DefaultMQProducer producer = driver.handle(arguments, "name");
        producer.shutdown();
        driver.handles.remove(arguments.getString("name"));
        return true;
    }

    private Object send(JSONObject arguments) throws Throwable {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        Message message = Driver.message(arguments.getJSONObject("message"));
        final Integer queueId = arguments.getInteger("queue_id");
        MessageQueueSelector chosen = new MessageQueueSelector() {
            public MessageQueue select(List<MessageQueue> queues, Message ignored, Object argument) {
                for (MessageQueue queue : queues) {
                    if (queue.getQueueId() == queueId) {
                        return queue;
                    }
                }
                throw new IllegalArgumentException("no queue " + queueId);
            }
        };
        String mode = arguments.getString("mode");
        if (mode.equals("oneway")) {
            if (queueId == null) {
                producer.sendOneway(message);
            } else {
                producer.sendOneway(message, chosen, null);
            }
            return null;
        }
        if (mode.equals("async")) {
            final CompletableFuture<SendResult> answer = new CompletableFuture<SendResult>();
            SendCallback callback = new SendCallback() {
                public void onSuccess(SendResult result) {
                    answer.complete(result);
                }

                public void onException(Throwable error) {
                    answer.completeExceptionally(error);
                }
            };
            if (queueId == null) {
                producer.send(message, callback);
            } else {
                producer.send(message, chosen, null, callback);
            }
            try {
                return describe(answer.get(60, TimeUnit.SECONDS));
            } catch (java.util.concurrent.ExecutionException wrapped) {
                throw wrapped.getCause();
            }
        }
        return describe(queueId == null ? producer.send(message) : producer.send(message, chosen, null));
    }

    static Map<String, Object> describe(SendResult result) {
        Map<String, Object> answer = new HashMap<String, Object>();
        answer.put("status", result.getSendStatus().name());
        answer.put("message_id", result.getMsgId());
        Object offsetId = Driver.optional(result, "getOffsetMsgId");
        answer.put("offset_id", offsetId == null ? result.getMsgId() : offsetId);
        answer.put("queue_id", result.getMessageQueue().getQueueId());
        answer.put("broker_name", result.getMessageQueue().getBrokerName());
        // Of a logical queue: where the message really is.
        answer.put("origin_broker", Driver.optional(result, "getOrigBrokerName"));
        answer.put("origin_queue_id", Driver.optional(result, "getOrigQueueId"));
        answer.put("queue_offset", result.getQueueOffset());
        return answer;
    }

    private Object queryByKey(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        QueryResult result = producer.queryMessage(
            arguments.getString("topic"),
            arguments.getString("key"),
            arguments.getIntValue("max_count"),
            arguments.getLongValue("begin_ms"),
            arguments.getLongValue("end_ms"));
        List<Object> found = new ArrayList<Object>();
        for (MessageExt message : result.getMessageList()) {
            found.add(Driver.describe(message));
        }
        return found;
    }

    /** By the id that says where the message lies; releases differ in whether they want the topic. */
    private Object view(JSONObject arguments) throws Throwable {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        String id = arguments.getString("offset_id");
        try {
            return view(producer, arguments.getString("topic"), id);
        } catch (NoSuchMethodException oldRelease) {
            return Driver.describe((MessageExt) call(producer, "viewMessage", id));
        }
    }

    private Object queryByUniqueKey(JSONObject arguments) throws Throwable {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        try {
            return view(producer, arguments.getString("topic"), arguments.getString("message_id"));
        } catch (NoSuchMethodException oldRelease) {
            throw new Driver.Absent("the Java client " + Driver.VERSION + " knows no unique keys");
        }
    }

    private static Object view(DefaultMQProducer producer, String topic, String id) throws Throwable {
        return Driver.describe((MessageExt) call(producer, "viewMessage", topic, id));
    }

    private static Object call(Object target, String method, String... arguments) throws Throwable {
        Class<?>[] types = new Class<?>[arguments.length];
        java.util.Arrays.fill(types, String.class);
        try {
            return target.getClass().getMethod(method, types).invoke(target, (Object[]) arguments);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause();
        }
    }
}
