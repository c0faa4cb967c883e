import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What a transaction's own message says is to be answered: properties "local", and "checks". */
final class Checks {
    private final String producer;
    private final Map<String, AtomicInteger> asked = new ConcurrentHashMap<String, AtomicInteger>();

    Checks(String producer) {
        this.producer = producer;
    }

    static LocalTransactionState local(Message message) {
        return state(message.getProperty("local"));
    }

    /** Reports the question and answers the next of the message's states, the last one again and again. */
    LocalTransactionState check(MessageExt message) {
        String body = Driver.base64(message.getBody());
        asked.putIfAbsent(body, new AtomicInteger());
        String[] states = String.valueOf(message.getProperty("checks")).split(",");
        int number = asked.get(body).getAndIncrement();
        Map<String, Object> event = new HashMap<String, Object>();
        event.put("event", "message");
        event.put("consumer", producer);
        event.put("succeeded", true);
        event.put("message", Driver.describe(message));
        Driver.write(event);
        return state(states[Math.min(number, states.length - 1)]);
    }

    private static LocalTransactionState state(String name) {
        if ("commit".equals(name)) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
        return "rollback".equals(name) ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }
}
