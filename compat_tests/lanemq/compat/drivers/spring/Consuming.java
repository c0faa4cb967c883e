import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;

/** Listeners as applications declare them; every delivery is reported as an event. */
final class Consuming {
    private Consuming() {
    }

    static void register(final Driver driver) {
        driver.commands.put("open_consumer", arguments -> {
            Map<String, Object> properties = new HashMap<String, Object>();
            properties.put("driver.group", arguments.getString("group"));
            properties.put("driver.topic", arguments.getString("topic"));
            boolean sql = arguments.containsKey("sql");
            properties.put("driver.selector", arguments.getString(sql ? "sql" : "tags"));
            Listener listener;
            if (sql) {
                listener = new BySql(arguments);
            } else if (arguments.getBooleanValue("orderly")) {
                listener = new Orderly(arguments);
            } else if (arguments.getBooleanValue("broadcasting")) {
                listener = new Broadcasting(arguments);
            } else {
                listener = new Concurrent(arguments);
            }
            driver.handles.put(
                arguments.getString("name"), Contexts.open(arguments, properties, listener));
            return true;
        });
        driver.commands.put("close_consumer", Contexts.closing(driver));
    }

    /** Tells the harness of deliveries, and fails the first so many of each body. */
    abstract static class Listener
        implements RocketMQListener<MessageExt>, RocketMQPushConsumerLifecycleListener {
        private final JSONObject asked;
        private final Map<String, Integer> attempts = new HashMap<String, Integer>();

        Listener(JSONObject asked) {
            this.asked = asked;
        }

        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            // All listeners of one process are one client by default.
            consumer.setInstanceName(asked.getString("name"));
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setPollNameServerInterval(1000);
            consumer.setHeartbeatBrokerInterval(2000);
            consumer.setPersistConsumerOffsetInterval(1000);
            consumer.setMqClientApiTimeout(15000); // many clients share a small machine
            if (asked.containsKey("max_reconsume_times")) {
                consumer.setMaxReconsumeTimes(asked.getIntValue("max_reconsume_times"));
            }
        }

        @Override
        public void onMessage(MessageExt message) {
            Map<String, Object> seen = Driver.describe(message);
            boolean succeeded;
            synchronized (attempts) {
                int attempt = attempts.merge((String) seen.get("body"), 1, Integer::sum);
                succeeded = attempt > asked.getIntValue("fail_first");
            }
            Map<String, Object> event = new HashMap<String, Object>();
            event.put("event", "message");
            event.put("consumer", asked.getString("name"));
            event.put("succeeded", succeeded);
            event.put("message", seen);
            Driver.write(event);
            if (!succeeded) {
                throw new IllegalStateException("to be delivered again");
            }
        }
    }

    @RocketMQMessageListener(
        consumerGroup = "${driver.group}", topic = "${driver.topic}",
        selectorExpression = "${driver.selector}",
        consumeThreadNumber = 4)
    static final class Concurrent extends Listener {
        Concurrent(JSONObject asked) {
            super(asked);
        }
    }

    @RocketMQMessageListener(
        consumerGroup = "${driver.group}", topic = "${driver.topic}",
        selectorExpression = "${driver.selector}",
        consumeThreadNumber = 4, selectorType = SelectorType.SQL92)
    static final class BySql extends Listener {
        BySql(JSONObject asked) {
            super(asked);
        }
    }

    @RocketMQMessageListener(
        consumerGroup = "${driver.group}", topic = "${driver.topic}",
        selectorExpression = "${driver.selector}",
        consumeThreadNumber = 4, consumeMode = ConsumeMode.ORDERLY)
    static final class Orderly extends Listener {
        Orderly(JSONObject asked) {
            super(asked);
        }
    }

    @RocketMQMessageListener(
        consumerGroup = "${driver.group}", topic = "${driver.topic}",
        selectorExpression = "${driver.selector}",
        consumeThreadNumber = 4, messageModel = MessageModel.BROADCASTING)
    static final class Broadcasting extends Listener {
        Broadcasting(JSONObject asked) {
            super(asked);
        }
    }
}
