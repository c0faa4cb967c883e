import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The pull consumer: queues, offsets, and one pull at a time. */
final class Pulling {
    private final Driver driver;

    private Pulling(Driver driver) {
        this.driver = driver;
    }

    static void register(Driver driver) {
        Pulling pulling = new Pulling(driver);
        driver.commands.put("open_puller", pulling::open);
        driver.commands.put("close_puller", pulling::close);
        driver.commands.put("queues", pulling::queues);
        driver.commands.put("pull", pulling::pull);
        driver.commands.put("min_offset", (arguments) ->
            pulling.puller(arguments).minOffset(pulling.queue(arguments)));
        driver.commands.put("max_offset", (arguments) ->
            pulling.puller(arguments).maxOffset(pulling.queue(arguments)));
        driver.commands.put("search_offset", (arguments) ->
            pulling.puller(arguments).searchOffset(
                pulling.queue(arguments), arguments.getLongValue("timestamp_ms")));
        driver.commands.put("earliest_time", (arguments) ->
            pulling.puller(arguments).earliestMsgStoreTime(pulling.queue(arguments)));
        driver.commands.put("commit_offset", pulling::commit);
        driver.commands.put("committed_offset", (arguments) ->
            pulling.puller(arguments).fetchConsumeOffset(pulling.queue(arguments), true));
    }

    private DefaultMQPullConsumer puller(JSONObject arguments) {
        return driver.handle(arguments, "puller");
    }

    private Object open(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(arguments.getString("group"));
        driver.configure(puller, arguments);
        puller.start();
        driver.handles.put(arguments.getString("name"), puller);
        return true;
    }

    private Object close(JSONObject arguments) {
        DefaultMQPullConsumer puller = driver.handle(arguments, "name");
        puller.shutdown();
        driver.handles.remove(arguments.getString("name"));
        return true;
    }

    private Object queues(JSONObject arguments) throws Exception {
        TreeSet<Integer> ids = new TreeSet<Integer>();
        for (MessageQueue queue : puller(arguments).fetchSubscribeMessageQueues(arguments.getString("topic"))) {
            ids.add(queue.getQueueId());
        }
        return new ArrayList<Integer>(ids);
    }

    private MessageQueue queue(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        for (MessageQueue queue : puller(arguments).fetchSubscribeMessageQueues(topic)) {
            if (queue.getQueueId() == arguments.getIntValue("queue_id")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no such queue");
    }

    private Object pull(JSONObject arguments) throws Exception {
        PullResult result = puller(arguments).pull(
            queue(arguments),
            arguments.getString("tags"),
            arguments.getLongValue("queue_offset"),
            arguments.getIntValue("max_count"));
        List<Object> messages = new ArrayList<Object>();
        if (result.getMsgFoundList() != null) {
            for (MessageExt message : result.getMsgFoundList()) {
                messages.add(Driver.describe(message));
            }
        }
        Map<String, Object> answer = new HashMap<String, Object>();
        answer.put("status", result.getPullStatus().name());
        answer.put("next_offset", result.getNextBeginOffset());
        answer.put("min_offset", result.getMinOffset());
        answer.put("max_offset", result.getMaxOffset());
        answer.put("messages", messages);
        return answer;
    }

    private Object commit(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer puller = puller(arguments);
        MessageQueue queue = queue(arguments);
        puller.updateConsumeOffset(queue, arguments.getLongValue("queue_offset"));
        // By itself the client tells the broker only of queues that it balances.
        puller.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        return true;
    }
}
