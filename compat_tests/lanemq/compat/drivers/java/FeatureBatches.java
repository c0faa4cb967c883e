import com.alibaba.fastjson.JSONArray;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Batch send: 4.1 and later. */
final class FeatureBatches {
    private FeatureBatches() {
    }

    static void register(final Driver driver) {
        driver.commands.put("send_batch", (arguments) -> {
            DefaultMQProducer producer = driver.handle(arguments, "producer");
            JSONArray described = arguments.getJSONArray("messages");
            List<Message> batch = new ArrayList<Message>();
            for (int index = 0; index < described.size(); index++) {
                batch.add(Driver.message(described.getJSONObject(index)));
            }
            return Sending.describe(producer.send(batch));
        });
    }
}
