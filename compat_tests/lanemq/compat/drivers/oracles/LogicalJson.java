// Reads and writes JSON about logical queues with the classes of 5.0.0-PREVIEW. A line of input is
// what to do, a tab and a JSON text; the line of output is the JSON that Java writes of it, or
// `ERROR` and the exception. What to do: `route` as a client reads a route, `unordered` to write
// it as a name server does, `sorted` to sort segments, or the name of a class of the protocol.

import com.alibaba.fastjson.JSON;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.protocol.body.CreateMessageQueueForLogicalQueueRequestBody;
import org.apache.rocketmq.common.protocol.body.MigrateLogicalQueueBody;
import org.apache.rocketmq.common.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.common.protocol.body.ReuseTopicLogicalQueueRequestBody;
import org.apache.rocketmq.common.protocol.body.SealTopicLogicalQueueRequestBody;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.UpdateTopicLogicalQueueMappingRequestBody;
import org.apache.rocketmq.common.protocol.route.LogicalQueueRouteData;
import org.apache.rocketmq.common.protocol.route.LogicalQueuesInfo;
import org.apache.rocketmq.common.protocol.route.LogicalQueuesInfoUnordered;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;
import org.apache.rocketmq.common.protocol.route.TopicRouteDataNameSrv;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

public class LogicalJson {
    private static final Map<String, Class<?>> CLASSES = Map.of(
        "segment", LogicalQueueRouteData.class,
        "queues", LogicalQueuesInfo.class,
        "register", RegisterBrokerBody.class,
        "topics", TopicConfigSerializeWrapper.class,
        "update", UpdateTopicLogicalQueueMappingRequestBody.class,
        "seal", SealTopicLogicalQueueRequestBody.class,
        "reuse", ReuseTopicLogicalQueueRequestBody.class,
        "create", CreateMessageQueueForLogicalQueueRequestBody.class,
        "migrate", MigrateLogicalQueueBody.class);

    public static void main(String[] arguments) throws Exception {
        // Their static initialisers teach the JSON library; nothing else in a client runs them.
        new LogicalQueuesInfo();
        new LogicalQueuesInfoUnordered();
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 2);
            String answer;
            try {
                answer = answer(parts[0], parts[1]);
            } catch (RuntimeException error) {
                answer = "ERROR " + error.toString().replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String answer(String what, String json) {
        byte[] data = json.getBytes(StandardCharsets.UTF_8);
        if (what.equals("route")) {
            TopicRouteData route =
                RemotingSerializable.decode(data, TopicRouteDataNameSrv.class).toTopicRouteData();
            return RemotingSerializable.toJson(route, false);
        }
        if (what.equals("unordered")) {
            TopicRouteDataNameSrv route =
                RemotingSerializable.decode(data, TopicRouteDataNameSrv.class);
            route.setLogicalQueuesInfoUnordered(unordered(route.getLogicalQueuesInfo()));
            route.setLogicalQueuesInfo(null);
            return RemotingSerializable.toJson(route, false);
        }
        if (what.equals("sorted")) {
            List<LogicalQueueRouteData> segments =
                new ArrayList<>(JSON.parseArray(json, LogicalQueueRouteData.class));
            Collections.sort(segments);
            return RemotingSerializable.toJson(segments, false);
        }
        return RemotingSerializable.toJson(
            RemotingSerializable.decode(data, CLASSES.get(what)), false);
    }

    private static LogicalQueuesInfoUnordered unordered(LogicalQueuesInfo queues) {
        LogicalQueuesInfoUnordered result = new LogicalQueuesInfoUnordered();
        for (Map.Entry<Integer, List<LogicalQueueRouteData>> entry : queues.entrySet()) {
            Map<LogicalQueuesInfoUnordered.Key, LogicalQueueRouteData> segments =
                new ConcurrentHashMap<>();
            for (LogicalQueueRouteData segment : entry.getValue()) {
                segments.put(
                    new LogicalQueuesInfoUnordered.Key(
                        segment.getBrokerName(), segment.getQueueId(), segment.getOffsetDelta()),
                    segment);
            }
            result.put(entry.getKey(), segments);
        }
        return result;
    }
}
