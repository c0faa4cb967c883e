// Divides queues with the client's own strategies. A line of input is the strategy, our client id,
// the ids of all clients and the queues, separated by tabs; ids and queues by `|`, a queue is
// `topic,broker,id`. The line of output is the queues that are ours, in that form.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

public class Allocation {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            List<MessageQueue> queues = new ArrayList<>();
            for (String queue : parts[3].split("\\|")) {
                String[] fields = queue.split(",");
                queues.add(new MessageQueue(fields[0], fields[1], Integer.parseInt(fields[2])));
            }
            List<String> clients = Arrays.asList(parts[2].split("\\|"));
            List<String> ours = new ArrayList<>();
            for (MessageQueue queue : strategy(parts[0]).allocate("g", parts[1], queues, clients)) {
                ours.add(queue.getTopic() + "," + queue.getBrokerName() + "," + queue.getQueueId());
            }
            out.println(String.join("|", ours));
        }
        out.flush();
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        switch (name) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash();
            case "machine_room":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(new HashSet<>(Arrays.asList("r1", "r2")));
                return rooms;
            case "machine_room_nearby":
                return new AllocateMachineRoomNearby(
                    new AllocateMessageQueueAveragely(),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return queue.getBrokerName().split("@")[0];
                        }

                        @Override
                        public String consumerDeployIn(String client) {
                            return client.split("-")[0];
                        }
                    });
            default:
                throw new IllegalArgumentException(name);
        }
    }
}
