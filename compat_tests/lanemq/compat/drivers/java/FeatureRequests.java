import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests and their replies: 4.6 and later. */
final class FeatureRequests {
    private FeatureRequests() {
    }

    static void register(final Driver driver) {
        driver.commands.put("request", (arguments) -> {
            DefaultMQProducer producer = driver.handle(arguments, "producer");
            final CompletableFuture<Message> answer = new CompletableFuture<Message>();
            // 5.3.3 takes the answer to the send for the end: its other form throws then, this one
            // is called with nothing first, and with the reply when it comes.
            producer.request(
                Driver.message(arguments.getJSONObject("message")),
                new RequestCallback() {
                    public void onSuccess(Message reply) {
                        if (reply != null) {
                            answer.complete(reply);
                        }
                    }

                    public void onException(Throwable error) {
                        answer.completeExceptionally(error);
                    }
                },
                arguments.getLongValue("timeout_ms"));
            Message reply = answer.get(60, TimeUnit.SECONDS);
            Map<String, Object> seen = new HashMap<String, Object>();
            seen.put("body", Driver.base64(reply.getBody()));
            seen.put("properties", new HashMap<String, String>(reply.getProperties()));
            return seen;
        });
        driver.commands.put("open_replier", (arguments) -> open(driver, arguments));
        driver.commands.put("close_replier", (arguments) -> {
            Replier replier = driver.handle(arguments, "name");
            replier.consumer.shutdown();
            replier.producer.shutdown();
            driver.handles.remove(arguments.getString("name"));
            return true;
        });
    }

    /** A consumer that replies with the request in capitals. */
    private static final class Replier {
        DefaultMQPushConsumer consumer;
        DefaultMQProducer producer;
    }

    private static Object open(Driver driver, JSONObject arguments) throws Exception {
        final Replier replier = new Replier();
        replier.producer = new DefaultMQProducer(arguments.getString("group") + "_replies");
        driver.configure(replier.producer, arguments);
        replier.producer.setInstanceName(arguments.getString("name") + "_replies");
        replier.producer.setSendMsgTimeout(15000);
        replier.producer.start();
        replier.consumer = new DefaultMQPushConsumer(arguments.getString("group"));
        driver.configure(replier.consumer, arguments);
        replier.consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        replier.consumer.subscribe(arguments.getString("topic"), "*");
        replier.consumer.registerMessageListener(new MessageListenerConcurrently() {
            public ConsumeConcurrentlyStatus consumeMessage(
                List<MessageExt> messages, ConsumeConcurrentlyContext context) {
                try {
                    for (MessageExt message : messages) {
                        byte[] body = new String(message.getBody(), "UTF-8").toUpperCase().getBytes("UTF-8");
                        replier.producer.send(MessageUtil.createReplyMessage(message, body));
                    }
                } catch (Exception failure) {
                    // A broker that has not heard of the one who asks yet refuses the reply.
                    failure.printStackTrace();
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        });
        replier.consumer.start();
        driver.handles.put(arguments.getString("name"), replier);
        return true;
    }
}
