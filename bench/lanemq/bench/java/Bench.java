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
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

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

    private static DefaultMQProducer producer(String nameServer) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(nameServer);
        if (producer == null) {
            producer = new DefaultMQProducer("bench_producer");
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName("bench@" + nameServer.replace(':', '_'));
            producer.setSendMsgTimeout(10000);
            producer.start();
            PRODUCERS.put(nameServer, producer);
        }
        return producer;
    }

    private static Map<String, Object> measured(long messages, long begunNanos, long endedNanos) {
        Map<String, Object> answer = new HashMap<String, Object>();
        answer.put("messages", messages);
        answer.put("seconds", (endedNanos - begunNanos) / 1e9);
        return answer;
    }

    /** So many threads send one message after the other for so many seconds. */
    private static Object send(JSONObject request) throws Exception {
        final DefaultMQProducer producer = producer(request.getString("name_server"));
        final String topic = request.getString("topic");
        int threads = request.getIntValue("threads");
        final AtomicLong sent = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        final CountDownLatch done = new CountDownLatch(threads);
        final long begun = System.nanoTime();
        final long end = begun + (long) (request.getDoubleValue("seconds") * 1e9);
        for (int number = 0; number < threads; number++) {
            new Thread() {
                @Override
                public void run() {
                    try {
                        do { // once at least, however late this thread is
                            producer.send(new Message(topic, BODY));
                            sent.incrementAndGet();
                        } while (System.nanoTime() < end);
                    } catch (Exception error) {
                        error.printStackTrace();
                        failed.incrementAndGet();
                    } finally {
                        done.countDown();
                    }
                }
            }.start();
        }
        done.await();
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " of " + threads + " threads failed");
        }
        return measured(sent.get(), begun, System.nanoTime());
    }

    private static List<Message> batchOf(String topic, int size) {
        List<Message> batch = new ArrayList<Message>();
        for (int number = 0; number < size; number++) {
            batch.add(new Message(topic, BODY));
        }
        return batch;
    }

    /** One thread sends batches for so many seconds. */
    private static Object batch(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request.getString("name_server"));
        int size = request.getIntValue("size");
        long sent = 0;
        long begun = System.nanoTime();
        long end = begun + (long) (request.getDoubleValue("seconds") * 1e9);
        do {
            producer.send(batchOf(request.getString("topic"), size));
            sent += size;
        } while (System.nanoTime() < end);
        return measured(sent, begun, System.nanoTime());
    }

    /** Puts so many messages into a topic. */
    private static Object fill(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request.getString("name_server"));
        int left = request.getIntValue("count");
        long begun = System.nanoTime();
        while (left > 0) {
            int size = Math.min(left, 32);
            producer.send(batchOf(request.getString("topic"), size));
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
        private int stored;
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
                storedNanos[stored++] = System.nanoTime();
            }
        }
    }

    /**
     * Threads send to one queue until a file is there, the same message again where one failed. The
     * times when messages were stored are left in another file: for each thread its number, how
     * many, and these.
     */
    private static Object load(JSONObject request) throws Exception {
        DefaultMQProducer producer = producer(request.getString("name_server"));
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
        while (!stop.exists()) {
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
