import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.MigrateLogicalQueueBody;
import org.apache.rocketmq.common.protocol.route.LogicalQueueRouteData;
import org.apache.rocketmq.common.protocol.route.LogicalQueuesInfo;
import org.apache.rocketmq.common.protocol.route.LogicalQueuesInfoUnordered;
import org.apache.rocketmq.common.protocol.route.MessageQueueRouteState;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Logical queues: 5.0.0-PREVIEW alone.
 *
 * <p>Two classes of this release teach its JSON library to read them when they are initialised, and
 * nothing in a client initialises them before the first route is read; from then on every use of
 * such a route is a ClassCastException. So they are initialised here, which changes nothing in the
 * client. -Dlanemq.warmUp=false leaves them alone.
 *
 * <p>The administrator's requests are in the client's library, though mqadmin is not; a producer
 * lends its connections.
 */
final class FeatureLogicalQueues {
    private static final long TIMEOUT_MS = 15000;

    private final Driver driver;

    private FeatureLogicalQueues(Driver driver) {
        this.driver = driver;
    }

    static void register(Driver driver) {
        if (!"false".equals(System.getProperty("lanemq.warmUp"))) {
            new LogicalQueuesInfo();
            new LogicalQueuesInfoUnordered();
        }
        FeatureLogicalQueues feature = new FeatureLogicalQueues(driver);
        driver.commands.put("publish_queues", feature::publishQueues);
        driver.commands.put("logical_query", feature::query);
        driver.commands.put("logical_update", feature::update);
        driver.commands.put("logical_delete", feature::delete);
        driver.commands.put("logical_seal", feature::seal);
        driver.commands.put("logical_reuse", feature::reuse);
        driver.commands.put("logical_create", feature::create);
        driver.commands.put("logical_prepare", feature::prepare);
        driver.commands.put("logical_commit", feature::commit);
        driver.commands.put("logical_notify", feature::tell);
    }

    private MQClientAPIImpl api(JSONObject arguments) {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        return producer.getDefaultMQProducerImpl().getmQClientFactory().getMQClientAPIImpl();
    }

    private Object publishQueues(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = driver.handle(arguments, "producer");
        TreeSet<MessageQueue> queues =
            new TreeSet<MessageQueue>(producer.fetchPublishMessageQueues(arguments.getString("topic")));
        List<Object> described = new ArrayList<Object>();
        for (MessageQueue queue : queues) {
            Map<String, Object> one = new HashMap<String, Object>();
            one.put("broker_name", queue.getBrokerName());
            one.put("queue_id", queue.getQueueId());
            described.add(one);
        }
        return described;
    }

    /** Of each logical queue, by its index, the segments; null where the topic has none. */
    private Object query(JSONObject arguments) throws Exception {
        LogicalQueuesInfo info = api(arguments).queryTopicLogicalQueue(
            arguments.getString("broker"), arguments.getString("topic"), TIMEOUT_MS);
        if (info == null) {
            return null;
        }
        Map<String, Object> described = new HashMap<String, Object>();
        for (Map.Entry<Integer, List<LogicalQueueRouteData>> queue : info.entrySet()) {
            List<Object> chain = new ArrayList<Object>();
            for (LogicalQueueRouteData segment : queue.getValue()) {
                chain.add(describe(segment));
            }
            described.put(String.valueOf(queue.getKey()), chain);
        }
        return described;
    }

    private Object update(JSONObject arguments) throws Exception {
        api(arguments).updateTopicLogicalQueue(
            arguments.getString("broker"),
            arguments.getString("topic"),
            arguments.getIntValue("queue_id"),
            arguments.getIntValue("index"),
            TIMEOUT_MS);
        return true;
    }

    private Object delete(JSONObject arguments) throws Exception {
        api(arguments).deleteTopicLogicalQueueMapping(
            arguments.getString("broker"), arguments.getString("topic"), TIMEOUT_MS);
        return true;
    }

    private Object seal(JSONObject arguments) throws Exception {
        return describe(api(arguments).sealTopicLogicalQueue(
            arguments.getString("broker"), segment(arguments, "segment"), TIMEOUT_MS));
    }

    private Object reuse(JSONObject arguments) throws Exception {
        return describe(api(arguments).reuseTopicLogicalQueue(
            arguments.getString("broker"),
            arguments.getString("topic"),
            arguments.getIntValue("queue_id"),
            arguments.getIntValue("index"),
            MessageQueueRouteState.valueOf(arguments.getString("state")),
            TIMEOUT_MS));
    }

    private Object create(JSONObject arguments) throws Exception {
        return describe(api(arguments).createMessageQueueForLogicalQueue(
            arguments.getString("broker"),
            arguments.getString("topic"),
            arguments.getIntValue("index"),
            MessageQueueRouteState.valueOf(arguments.getString("state")),
            TIMEOUT_MS));
    }

    private Object prepare(JSONObject arguments) throws Exception {
        return describe(api(arguments).migrateTopicLogicalQueuePrepare(
            arguments.getString("broker"),
            segment(arguments, "source"),
            segment(arguments, "destination"),
            TIMEOUT_MS));
    }

    private Object commit(JSONObject arguments) throws Exception {
        return describe(api(arguments).migrateTopicLogicalQueueCommit(
            arguments.getString("broker"),
            segment(arguments, "source"),
            segment(arguments, "destination"),
            TIMEOUT_MS));
    }

    private Object tell(JSONObject arguments) throws Exception {
        api(arguments).migrateTopicLogicalQueueNotify(
            arguments.getString("broker"),
            segment(arguments, "source"),
            segment(arguments, "destination"),
            TIMEOUT_MS);
        return true;
    }

    private static LogicalQueueRouteData segment(JSONObject arguments, String key) {
        return JSON.parseObject(
            arguments.getJSONObject(key).toJSONString(), LogicalQueueRouteData.class);
    }

    private static Object describe(LogicalQueueRouteData segment) {
        return JSON.parse(RemotingSerializable.toJson(segment, false));
    }

    private static Object describe(MigrateLogicalQueueBody body) {
        if (body == null) {
            return null;
        }
        Map<String, Object> described = new HashMap<String, Object>();
        described.put("source", describe(body.getFromQueueRouteData()));
        described.put("destination", describe(body.getToQueueRouteData()));
        return described;
    }
}
