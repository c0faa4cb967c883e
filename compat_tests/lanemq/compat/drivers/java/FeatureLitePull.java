import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** The lite pull consumer: 4.6 and later. */
final class FeatureLitePull {
    private FeatureLitePull() {
    }

    static void register(final Driver driver) {
        driver.commands.put("open_lite_puller", (arguments) -> open(driver, arguments));
        driver.commands.put("poll", (arguments) -> {
            DefaultLitePullConsumer puller = driver.handle(arguments, "puller");
            List<Object> messages = new ArrayList<Object>();
            for (MessageExt message : puller.poll(arguments.getLongValue("timeout_ms"))) {
                messages.add(Driver.describe(message));
            }
            return messages;
        });
        driver.commands.put("commit", (arguments) -> {
            DefaultLitePullConsumer puller = driver.handle(arguments, "puller");
            puller.commitSync();
            return true;
        });
        driver.commands.put("close_lite_puller", (arguments) -> {
            DefaultLitePullConsumer puller = driver.handle(arguments, "name");
            puller.shutdown();
            driver.handles.remove(arguments.getString("name"));
            return true;
        });
    }

    private static Object open(Driver driver, JSONObject arguments) throws Exception {
        DefaultLitePullConsumer puller = new DefaultLitePullConsumer(arguments.getString("group"));
        driver.configure(puller, arguments);
        puller.setAutoCommit(false);
        puller.setPullThreadNums(2);
        puller.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        puller.subscribe(arguments.getString("topic"), arguments.getString("tags"));
        puller.start();
        driver.handles.put(arguments.getString("name"), puller);
        return true;
    }
}
