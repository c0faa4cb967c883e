import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Measures a broker from outside, with the Java client as applications use it. Speaks JSON lines:
 * one measurement at a time is asked for on stdin, its messages and seconds are the answer.
 */
public final class Bench {
    private static final byte[] BODY = new byte[256];
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<String, DefaultMQProducer>();

    public static void main(String[] arguments) throws Exception {
        new Random(1).nextBytes(BODY);
        PrintStream wire = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject request = JSON.parseObject(line);
            Map<String, Object> reply = new HashMap<String, Object>();
            reply.put("id", request.get("id"));
            try {
                reply.put("result", run(request));
            } catch (Throwable error) {
                error.printStackTrace();
                reply.put("error", error.getClass().getSimpleName());
                reply.put("code", -1);
                reply.put("message", String.valueOf(error.getMessage()));
            }
            wire.println(JSON.toJSONString(reply));
            wire.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object run(JSONObject request) throws Exception {
        String command = request.getString("command");
        if (command.equals("send")) {
            return send(request);
        }
        if (command.equals("transactions")) {
            return transactions(request);
        }
        if (command.equals("batch")) {
            return batch(request);
        }
        if (command.equals("fill")) {
            return fill(request);
        }
        if (command.equals("consume")) {
            return consume(request);
        }
        if (command.equals("load")) {
            return load(request);
        }
        throw new IllegalArgumentException(command);
    }

    /** The producer for a name server and, if it is to sign, an account. */
    private static DefaultMQProducer producer(JSONObject request) throws Exception {
        String nameServer = request.getString("name_server");
        String accessKey = request.getString("access_key");
        String name = nameServer + "/" + accessKey;
        DefaultMQProducer producer = PRODUCERS.get(name);
        if (producer == null) {
            RPCHook hook = accessKey == null ? null : new AclClientRPCHook(
                new SessionCredentials(accessKey, request.getString("secret_key")));
            producer = new DefaultMQProducer("bench_producer", hook);
            start(producer, name);
        }
        return producer;
    }

    private static void start(DefaultMQProducer producer, String name) throws Exception {
        producer.setNamesrvAddr(name.substring(0, name.indexOf('/')));
        producer.setInstanceName("bench@" + name.replace(':', '_').replace('/', '_'));
        producer.setSendMsgTimeout(10000);
        producer.start();
        PRODUCERS.put(name, producer);
    }

    /** A producer that decides to commit whatever it sends. */
    private static TransactionMQProducer committer(String nameServer) throws Exception {
        String name = nameServer + "/transactions";
        TransactionMQProducer producer = (TransactionMQProducer) PRODUCERS.get(name);
        if (producer == null) {
            producer = new TransactionMQProducer("bench_transactions");
            producer.setTransactionListener(new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
            });
            start(producer, name);
        }
        return producer;
    }

    private static Map<String, Object> measured(long messages, long begunNanos, long endedNanos) {
        Map<String, Object> answer = new HashMap<String, Object>();
        answer.put("messages", messages);
        answer.put("seconds", (endedNanos - begunNanos) / 1e9);
        return answer;
    }

    private interface Step {
        void run() throws Exception;
    }

    /**
     * Take a step, again while the broker is too busy for it: one in which requests wait for 200 ms
     * refuses them, as on a machine that has other work. The time counts.
     */
    private static void patiently(Step step) throws Exception {
        long patience = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (true) {
            try {
                step.run();
                return;
            } catch (MQBrokerException | MQClientException error) {
                if (!isBusy(error) || System.nanoTime() > patience) {
                    throw error;
                }
            }
        }
    }

    private static boolean isBusy(Throwable error) {
        if (error instanceof MQBrokerException) {
            return ((MQBrokerException) error).getResponseCode() == ResponseCode.SYSTEM_BUSY;
        }
        return error.getCause() != null && isBusy(error.getCause());
    }

    /** So many threads take a step time and again for so many seconds; how many steps they took. */
    private static long repeat(JSONObject request, long begun, Step step) throws Exception {
        int threads = request.getIntValue("threads");
        final AtomicLong taken = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        final AtomicReference<Exception> first = new AtomicReference<Exception>();
        final CountDownLatch done = new CountDownLatch(threads);
        final long end = begun + (long) (request.getDoubleValue("seconds") * 1e9);
        for (int number = 0; number < threads; number++) {
            new Thread() {
                @Override
                public void run() {
                    try {
                        do { // once at least, however late this thread is
                            patiently(step);
                            taken.incrementAndGet();
                        } while (System.nanoTime() < end);
                    } catch (Exception error) {
                        error.printStackTrace();
                        failed.incrementAndGet();
                        first.compareAndSet(null, error);
                    } finally {
                        done.countDown();
                    }
                }
            }.start();
        }
        done.await();
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " of " + threads + " threads failed, the first by " + first.get());
        }
        return taken.get();
    }

    /** So many threads send one message after the other for so many seconds. */
    private static Object send(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request);
        String topic = request.getString("topic");
        long begun = System.nanoTime();
        long sent = repeat(request, begun, () -> producer.send(new Message(topic, BODY)));
        return measured(sent, begun, System.nanoTime());
    }

    /**
     * So many threads commit one transaction after the other for so many seconds. A client does not
     * wait for the answer to a commit: the time ends when all messages are in the topic's queues.
     */
    private static Object transactions(JSONObject request) throws Exception {
        TransactionMQProducer producer = committer(request.getString("name_server"));
        String topic = request.getString("topic");
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        long before = stored(producer, queues);
        long begun = System.nanoTime();
        long sent = repeat(
            request, begun, () -> producer.sendMessageInTransaction(new Message(topic, BODY), null));
        long patience = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (stored(producer, queues) < before + sent) {
            if (System.nanoTime() > patience) {
                throw new IllegalStateException("not all of " + sent + " commits were done");
            }
            Thread.sleep(2);
        }
        return measured(sent, begun, System.nanoTime());
    }

    private static long stored(DefaultMQProducer producer, List<MessageQueue> queues) throws Exception {
        long stored = 0;
        for (MessageQueue queue : queues) {
            stored += producer.maxOffset(queue);
        }
        return stored;
    }

    private static List<Message> batchOf(String topic, int size, byte[] body) {
        List<Message> batch = new ArrayList<Message>();
        for (int number = 0; number < size; number++) {
            batch.add(new Message(topic, body));
        }
        return batch;
    }

    /** One thread sends batches for so many seconds. */
    private static Object batch(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request);
        int size = request.getIntValue("size");
        long sent = 0;
        long begun = System.nanoTime();
        long end = begun + (long) (request.getDoubleValue("seconds") * 1e9);
        do {
            patiently(() -> producer.send(batchOf(request.getString("topic"), size, BODY)));
            sent += size;
        } while (System.nanoTime() < end);
        return measured(sent, begun, System.nanoTime());
    }

    /** Puts so many messages into a topic, of 256 bytes unless it is told otherwise. */
    private static Object fill(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request);
        int left = request.getIntValue("count");
        byte[] body = BODY;
        if (request.containsKey("body_bytes")) {
            body = new byte[request.getIntValue("body_bytes")];
            new Random(1).nextBytes(body);
        }
        long begun = System.nanoTime();
        while (left > 0) {
            int size = Math.min(left, 32);
            byte[] each = body;
            patiently(() -> producer.send(batchOf(request.getString("topic"), size, each)));
            left -= size;
        }
        return measured(request.getIntValue("count"), begun, System.nanoTime());
    }

    /** A new group reads so many messages; the time runs from the first to the last of them. */
    private static Object consume(JSONObject request) throws Exception {
        final long count = request.getLongValue("count");
        final AtomicLong first = new AtomicLong();
        final AtomicLong last = new AtomicLong();
        final AtomicLong seen = new AtomicLong();
        final CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.getString("group"));
        consumer.setNamesrvAddr(request.getString("name_server"));
        consumer.setInstanceName(request.getString("group"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(request.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (seen.addAndGet(messages.size()) >= count) {
                last.compareAndSet(0, System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean complete = done.await(80, TimeUnit.SECONDS);
        consumer.shutdown();
        if (!complete) {
            throw new IllegalStateException(seen.get() + " of " + count + " messages came");
        }
        return measured(count, first.get(), last.get());
    }

    /** One of those that write to one queue: it numbers its messages and notes when each was stored. */
    private static final class Sender extends Thread {
        private final DefaultMQProducer producer;
        private final MessageQueue queue;
        private final long number;
        private long[] storedNanos = new long[1 << 16];
        private volatile int stored;
        private int failed;
        private volatile boolean stopping;

        Sender(DefaultMQProducer producer, MessageQueue queue, long number) {
            this.producer = producer;
            this.queue = queue;
            this.number = number;
        }

        @Override
        public void run() {
            while (!stopping) {
                byte[] body = Arrays.copyOf(BODY, BODY.length);
                ByteBuffer.wrap(body).putLong(number).putLong(stored);
                try {
                    producer.send(new Message(queue.getTopic(), body), queue);
                } catch (Exception error) {
                    if (failed++ == 0) {
                        error.printStackTrace();
                    }
                    continue;
                }
                if (stored == storedNanos.length) {
                    storedNanos = Arrays.copyOf(storedNanos, 2 * stored);
                }
                storedNanos[stored] = System.nanoTime();
                stored++;
            }
        }
    }

    private static boolean haveAllStored(List<Sender> senders) {
        for (Sender sender : senders) {
            if (sender.stored == 0) {
                return false;
            }
        }
        return true;
    }

    /**
     * Threads send to one queue until a file is there, the same message again where one failed. The
     * times when messages were stored are left in another file: for each thread its number, how
     * many, and these. Beside it a file that ends in ".begun" is made once each thread has had a
     * message stored.
     */
    private static Object load(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request);
        MessageQueue queue = null;
        for (MessageQueue one : producer.fetchPublishMessageQueues(request.getString("topic"))) {
            if (one.getQueueId() == request.getIntValue("queue_id")) {
                queue = one;
            }
        }
        List<Sender> senders = new ArrayList<Sender>();
        long begun = System.nanoTime();
        for (int thread = 0; thread < request.getIntValue("threads"); thread++) {
            senders.add(new Sender(producer, queue, request.getLongValue("first") + thread));
        }
        for (Sender sender : senders) {
            sender.start();
        }
        File stop = new File(request.getString("until"));
        File begunFile = new File(request.getString("times") + ".begun");
        while (!stop.exists()) {
            if (haveAllStored(senders)) {
                begunFile.createNewFile();
            }
            Thread.sleep(20);
        }
        for (Sender sender : senders) {
            sender.stopping = true;
        }
        long messages = 0;
        long failed = 0;
        FileOutputStream file = new FileOutputStream(request.getString("times"));
        DataOutputStream times = new DataOutputStream(new BufferedOutputStream(file, 1 << 16));
        for (Sender sender : senders) {
            sender.join();
            messages += sender.stored;
            failed += sender.failed;
            times.writeLong(sender.number);
            times.writeLong(sender.stored);
            for (int number = 0; number < sender.stored; number++) {
                times.writeLong(sender.storedNanos[number]);
            }
        }
        times.close();
        Map<String, Object> answer = measured(messages, begun, System.nanoTime());
        answer.put("failed", failed);
        return answer;
    }
}
