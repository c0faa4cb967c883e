import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.MessagingException;
import org.springframework.messaging.support.MessageBuilder;

/** Producers: the template of rocketmq-spring, and its transactions. */
final class Sending {
    private static final int SEND_TIMEOUT_MS = 15000; // many clients share a small machine
    private final Driver driver;

    private Sending(Driver driver) {
        this.driver = driver;
    }

    static void register(final Driver driver) {
        Sending sending = new Sending(driver);
        driver.commands.put("open_producer", arguments -> sending.open(arguments, null));
        driver.commands.put("close_producer", Contexts.closing(driver));
        driver.commands.put("send", arguments -> unwrapped(() -> sending.send(arguments)));
        driver.commands.put("send_batch", arguments -> unwrapped(() -> sending.sendBatch(arguments)));
        driver.commands.put("open_transaction_producer", arguments ->
            sending.open(arguments, new Checks(arguments.getString("name"))));
        driver.commands.put("close_transaction_producer", Contexts.closing(driver));
        driver.commands.put("send_in_transaction", arguments ->
            unwrapped(() -> sending.sendInTransaction(arguments)));
    }

    interface Sent {
        Object get() throws Throwable;
    }

    /** The template wraps the client's exceptions, which have the server's code. */
    private static Object unwrapped(Sent sent) throws Throwable {
        try {
            return sent.get();
        } catch (MessagingException wrapped) {
            throw wrapped.getCause() == null ? wrapped : wrapped.getCause();
        }
    }

    private Object open(JSONObject arguments, Object listener) {
        Map<String, Object> properties = new HashMap<String, Object>();
        properties.put("rocketmq.producer.group", arguments.getString("group"));
        properties.put("rocketmq.producer.instance-name", arguments.getString("name"));
        properties.put("rocketmq.producer.send-message-timeout", SEND_TIMEOUT_MS);
        if (arguments.containsKey("max_message_bytes")) {
            properties.put("rocketmq.producer.max-message-size", arguments.getIntValue("max_message_bytes"));
        }
        ConfigurableApplicationContext context = Contexts.open(arguments, properties, listener);
        context.getBean(RocketMQTemplate.class).setMessageQueueSelector((queues, message, argument) -> {
            for (MessageQueue queue : queues) {
                if (String.valueOf(queue.getQueueId()).equals(argument)) {
                    return queue;
                }
            }
            throw new IllegalArgumentException("no queue " + argument);
        });
        driver.handles.put(arguments.getString("name"), context);
        return true;
    }

    private RocketMQTemplate template(JSONObject arguments) {
        ConfigurableApplicationContext context = driver.handle(arguments, "producer");
        return context.getBean(RocketMQTemplate.class);
    }

    private static String destination(JSONObject message) {
        String tags = message.getString("tags");
        return message.getString("topic") + (tags == null ? "" : ":" + tags);
    }

    private static Message<byte[]> message(JSONObject from) {
        MessageBuilder<byte[]> builder = MessageBuilder.withPayload(Driver.bytes(from.getString("body")));
        if (from.containsKey("keys")) {
            builder.setHeader("KEYS", from.getString("keys"));
        }
        if (from.containsKey("flag")) {
            builder.setHeader("FLAG", from.getIntValue("flag"));
        }
        if (from.containsKey("properties")) {
            for (Map.Entry<String, Object> property : from.getJSONObject("properties").entrySet()) {
                builder.setHeader(property.getKey(), property.getValue());
            }
        }
        return builder.build();
    }

    private Object send(JSONObject arguments) throws Throwable {
        RocketMQTemplate template = template(arguments);
        JSONObject asked = arguments.getJSONObject("message");
        String to = destination(asked);
        Message<byte[]> message = message(asked);
        String queue = arguments.getString("queue_id");
        String mode = arguments.getString("mode");
        if (mode.equals("oneway")) {
            if (queue == null) {
                template.sendOneWay(to, message);
            } else {
                template.sendOneWayOrderly(to, message, queue);
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
            if (queue == null) {
                template.asyncSend(to, message, callback);
            } else {
                template.asyncSendOrderly(to, message, queue, callback);
            }
            try {
                return describe(answer.get(60, TimeUnit.SECONDS));
            } catch (ExecutionException wrapped) {
                throw wrapped.getCause();
            }
        }
        if (queue != null) {
            return describe(template.syncSendOrderly(to, message, queue));
        }
        return describe(
            template.syncSend(to, message, SEND_TIMEOUT_MS, asked.getIntValue("delay_level")));
    }

    private Object sendBatch(JSONObject arguments) throws Throwable {
        JSONArray asked = arguments.getJSONArray("messages");
        Set<String> destinations = new HashSet<String>();
        List<Message<byte[]>> batch = new ArrayList<Message<byte[]>>();
        for (int number = 0; number < asked.size(); number++) {
            destinations.add(destination(asked.getJSONObject(number)));
            batch.add(message(asked.getJSONObject(number)));
        }
        if (destinations.size() > 1) {
            throw new Driver.Absent("the messages of a batch have one destination, and so one tag");
        }
        return describe(template(arguments).syncSend(destinations.iterator().next(), batch));
    }

    private Object sendInTransaction(JSONObject arguments) throws Throwable {
        JSONObject asked = arguments.getJSONObject("message");
        TransactionSendResult result =
            template(arguments).sendMessageInTransaction(destination(asked), message(asked), null);
        Map<String, Object> sent = describe(result);
        sent.put("transaction_id", result.getTransactionId());
        return sent;
    }

    static Map<String, Object> describe(SendResult result) {
        Map<String, Object> answer = new HashMap<String, Object>();
        answer.put("status", result.getSendStatus().name());
        answer.put("message_id", result.getMsgId());
        String offsetId = result.getOffsetMsgId(); // none of a half message
        answer.put("offset_id", offsetId == null ? result.getMsgId() : offsetId);
        answer.put("queue_id", result.getMessageQueue().getQueueId());
        answer.put("broker_name", result.getMessageQueue().getBrokerName());
        answer.put("queue_offset", result.getQueueOffset());
        return answer;
    }

    /** What a transaction's own message says is to be answered: headers "local", and "checks". */
    @RocketMQTransactionListener
    static final class Checks implements RocketMQLocalTransactionListener {
        private static final String PREFIX = "rocketmq_";
        private final String producer;
        private final Map<String, Integer> asked = new HashMap<String, Integer>();

        Checks(String producer) {
            this.producer = producer;
        }

        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(String.valueOf(message.getHeaders().get("local")));
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            Map<String, Object> seen = describe(message);
            String[] states = String.valueOf(message.getHeaders().get("checks")).split(",");
            int number;
            synchronized (asked) {
                number = asked.merge((String) seen.get("body"), 1, Integer::sum) - 1;
            }
            Map<String, Object> event = new HashMap<String, Object>();
            event.put("event", "message");
            event.put("consumer", producer);
            event.put("succeeded", true);
            event.put("message", seen);
            Driver.write(event);
            return state(states[Math.min(number, states.length - 1)]);
        }

        /** Returns what the starter leaves of a half message: its headers. */
        private static Map<String, Object> describe(Message<?> message) {
            Map<String, String> properties = new HashMap<String, String>();
            for (Map.Entry<String, Object> header : message.getHeaders().entrySet()) {
                String name = header.getKey();
                properties.put(
                    name.startsWith(PREFIX) ? name.substring(PREFIX.length()) : name,
                    String.valueOf(header.getValue()));
            }
            Map<String, Object> seen = new HashMap<String, Object>();
            seen.put("topic", properties.get("TOPIC"));
            seen.put("body", Driver.base64((byte[]) message.getPayload()));
            seen.put("tags", properties.get("TAGS"));
            seen.put("keys", properties.get("KEYS"));
            seen.put("flag", 0);
            seen.put("properties", properties);
            seen.put("queue_id", Integer.parseInt(properties.getOrDefault("QUEUE_ID", "-1")));
            seen.put("queue_offset", -1);
            seen.put("reconsume_times", 0);
            seen.put("message_id", properties.getOrDefault("MESSAGE_ID", ""));
            seen.put("offset_id", "");
            seen.put("born_timestamp_ms", 0);
            seen.put("store_timestamp_ms", 0);
            return seen;
        }

        private static RocketMQLocalTransactionState state(String name) {
            if ("commit".equals(name)) {
                return RocketMQLocalTransactionState.COMMIT;
            }
            return "rollback".equals(name)
                ? RocketMQLocalTransactionState.ROLLBACK : RocketMQLocalTransactionState.UNKNOWN;
        }
    }
}
