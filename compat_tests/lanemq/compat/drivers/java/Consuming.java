import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers: every delivery is reported as an event, with what the listener answered. */
final class Consuming {
    private final Driver driver;

    private Consuming(Driver driver) {
        this.driver = driver;
    }

    static void register(Driver driver) {
        Consuming consuming = new Consuming(driver);
        driver.commands.put("open_consumer", consuming::open);
        driver.commands.put("close_consumer", consuming::close);
    }

    private Object open(JSONObject arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.getString("group"));
        driver.configure(consumer, arguments);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(4);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (arguments.getBooleanValue("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (arguments.containsKey("max_reconsume_times")) {
            Driver.tune(consumer, "setMaxReconsumeTimes", arguments.getInteger("max_reconsume_times"));
        }
        if (!arguments.containsKey("sql")) {
            consumer.subscribe(arguments.getString("topic"), arguments.getString("tags"));
        } else if (driver.sqlSubscriber == null) {
            throw new Driver.Absent("the Java client " + Driver.VERSION + " knows no SQL92");
        } else {
            driver.sqlSubscriber.subscribe(
                consumer, arguments.getString("topic"), arguments.getString("sql"));
        }
        Report report = new Report(arguments);
        if (arguments.getBooleanValue("orderly")) {
            consumer.registerMessageListener(orderly(report));
        } else {
            consumer.registerMessageListener(concurrent(report));
        }
        consumer.start();
        driver.handles.put(arguments.getString("name"), consumer);
        return true;
    }

    private Object close(JSONObject arguments) {
        DefaultMQPushConsumer consumer = driver.handle(arguments, "name");
        consumer.shutdown();
        driver.handles.remove(arguments.getString("name"));
        return true;
    }

    private static MessageListenerConcurrently concurrent(final Report report) {
        return new MessageListenerConcurrently() {
            public ConsumeConcurrentlyStatus consumeMessage(
                List<MessageExt> messages, ConsumeConcurrentlyContext context) {
                boolean succeeded = true;
                for (MessageExt message : messages) {
                    succeeded &= report.deliver(message);
                }
                return succeeded
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
        };
    }

    private static MessageListenerOrderly orderly(final Report report) {
        return new MessageListenerOrderly() {
            public ConsumeOrderlyStatus consumeMessage(
                List<MessageExt> messages, ConsumeOrderlyContext context) {
                boolean succeeded = true;
                for (MessageExt message : messages) {
                    succeeded &= report.deliver(message);
                }
                return succeeded
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
        };
    }

    /** Tells the harness of deliveries when they are through, and fails the first so many of each body. */
    private static final class Report {
        private final String consumer;
        private final int failures;
        private final int takesMs;
        private final Map<String, AtomicInteger> attempts = new ConcurrentHashMap<String, AtomicInteger>();

        Report(JSONObject arguments) {
            consumer = arguments.getString("name");
            failures = arguments.getIntValue("fail_first");
            takesMs = arguments.getIntValue("takes_ms");
        }

        boolean deliver(MessageExt message) {
            Map<String, Object> seen = Driver.describe(message);
            String body = (String) seen.get("body");
            attempts.putIfAbsent(body, new AtomicInteger());
            if (takesMs > 0) {
                try {
                    // Some are quick and some are slow, the same on each run.
                    Thread.sleep((body.hashCode() * 31L & 0xffff) % takesMs);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            boolean succeeded = attempts.get(body).incrementAndGet() > failures;
            Map<String, Object> event = new HashMap<String, Object>();
            event.put("event", "message");
            event.put("consumer", consumer);
            event.put("succeeded", succeeded);
            event.put("message", seen);
            Driver.write(event);
            return succeeded;
        }
    }
}
