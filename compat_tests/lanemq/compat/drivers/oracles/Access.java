// Uses a cluster by the client's own classes, each time with an account. A line of input is the
// name server, the access key, the secret key (both empty: no account), what to do, the topic and
// the group, each part in base64 (`=` written `.`) and all separated by blanks; the line of output
// is "ok" with what came of it, or the response code and the broker's text, in base64.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.CommandUtil;

public class Access {
    private static final AtomicInteger NUMBER = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            for (int i = 0; i < parts.length; i++) {
                parts[i] = text(parts[i]);
            }
            String answer;
            try {
                RPCHook hook = parts[1].isEmpty()
                    ? null : new AclClientRPCHook(new SessionCredentials(parts[1], parts[2]));
                answer = "ok " + act(hook, parts[0], parts[3], parts[4], parts[5]);
            } catch (Throwable error) {
                error.printStackTrace();
                answer = refusal(error);
            }
            out.println(Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String act(RPCHook hook, String nameServer, String what, String topic, String group)
        throws Exception {
        switch (what) {
            case "create":
                return create(hook, nameServer, topic);
            case "send":
                return send(hook, nameServer, topic, group, false);
            case "batch":
                return send(hook, nameServer, topic, group, true);
            case "pull":
                return pull(hook, nameServer, topic, group);
            case "listen":
                return listen(hook, nameServer, topic, group);
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private static String create(RPCHook hook, String nameServer, String topic) throws Exception {
        DefaultMQAdminExt admin = place(new DefaultMQAdminExt(hook, 15000), nameServer);
        admin.start();
        try {
            TopicConfig config = new TopicConfig(topic);
            config.setReadQueueNums(1);
            config.setWriteQueueNums(1);
            for (String address : CommandUtil.fetchMasterAddrByClusterName(admin, "DefaultCluster")) {
                admin.createAndUpdateTopicConfig(address, config);
            }
            awaitRoute(admin, topic);
        } finally {
            admin.shutdown();
        }
        return "";
    }

    /** Brokers may answer a topic's creation before the name server has heard of it. */
    private static void awaitRoute(DefaultMQAdminExt admin, String topic) throws Exception {
        long end = System.currentTimeMillis() + 60000;
        while (true) {
            try {
                admin.examineTopicRouteInfo(topic);
                return;
            } catch (MQClientException error) {
                if (System.currentTimeMillis() > end) {
                    throw error;
                }
                Thread.sleep(20);
            }
        }
    }

    private static String send(
        RPCHook hook, String nameServer, String topic, String group, boolean batch) throws Exception {
        DefaultMQProducer producer = place(new DefaultMQProducer(group, hook), nameServer);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(15000);
        producer.start();
        try {
            Message message = new Message(topic, "body".getBytes(StandardCharsets.UTF_8));
            return (batch ? producer.send(Arrays.asList(message, message)) : producer.send(message))
                .getSendStatus().name();
        } finally {
            producer.shutdown();
        }
    }

    @SuppressWarnings("deprecation")
    private static String pull(RPCHook hook, String nameServer, String topic, String group)
        throws Exception {
        DefaultMQPullConsumer consumer = place(new DefaultMQPullConsumer(group, hook), nameServer);
        consumer.start();
        try {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                // Apache's broker answers a send before its consume queue has the message.
                return consumer.pullBlockIfNotFound(queue, "*", 0, 32).getPullStatus().name();
            }
            return "no queue";
        } finally {
            consumer.shutdown();
        }
    }

    private static String listen(RPCHook hook, String nameServer, String topic, String group)
        throws Exception {
        final CountDownLatch arrived = new CountDownLatch(1);
        DefaultMQPushConsumer consumer =
            place(new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely()), nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            arrived.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            return arrived.await(120, TimeUnit.SECONDS) ? "heard" : "heard nothing";
        } finally {
            consumer.shutdown();
        }
    }

    private static <T extends ClientConfig> T place(T client, String nameServer) {
        client.setNamesrvAddr(nameServer);
        client.setInstanceName("access-" + NUMBER.incrementAndGet());
        client.setMqClientApiTimeout(15000); // a busy machine is no refusal
        return client;
    }

    /** The code and the text of the broker, wherever the client has wrapped them. */
    private static String refusal(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) cause;
                return refused.getResponseCode() + " " + refused.getErrorMessage();
            }
        }
        if (error instanceof MQClientException) {
            MQClientException refused = (MQClientException) error;
            return refused.getResponseCode() + " " + refused.getErrorMessage();
        }
        return error.toString();
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64.replace('.', '=')), StandardCharsets.UTF_8);
    }
}
