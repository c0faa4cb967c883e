import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages with a timer, and their recall: 5.x. */
final class FeatureTimers {
    private FeatureTimers() {
    }

    static void register(final Driver driver) {
        driver.commands.put("send_timed", (arguments) -> {
            DefaultMQProducer producer = driver.handle(arguments, "producer");
            SendResult result = producer.send(timed(arguments));
            Map<String, Object> answer = Sending.describe(result);
            answer.put("recall_handle", result.getRecallHandle());
            return answer;
        });
        driver.commands.put("recall", (arguments) -> {
            DefaultMQProducer producer = driver.handle(arguments, "producer");
            return producer.recallMessage(arguments.getString("topic"), arguments.getString("handle"));
        });
    }

    private static Message timed(JSONObject arguments) {
        Message message = Driver.message(arguments.getJSONObject("message"));
        if (arguments.containsKey("deliver_ms")) {
            message.setDeliverTimeMs(arguments.getLongValue("deliver_ms"));
        } else if (arguments.containsKey("delay_s")) {
            message.setDelayTimeSec(arguments.getLongValue("delay_s"));
        } else {
            message.setDelayTimeMs(arguments.getLongValue("delay_ms"));
        }
        return message;
    }
}
