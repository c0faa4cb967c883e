import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionExecuter;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionCheckListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions before 4.3: one object does each of them, another one answers for all. */
final class FeatureOldTransactions {
    private FeatureOldTransactions() {
    }

    static void register(final Driver driver) {
        driver.commands.put("open_transaction_producer", (arguments) -> {
            TransactionMQProducer producer = new TransactionMQProducer(arguments.getString("group"));
            driver.configure(producer, arguments);
            producer.setSendMsgTimeout(15000);
            final Checks checks = new Checks(arguments.getString("name"));
            producer.setTransactionCheckListener(new TransactionCheckListener() {
                public LocalTransactionState checkLocalTransactionState(MessageExt message) {
                    return checks.check(message);
                }
            });
            producer.start();
            driver.handles.put(arguments.getString("name"), producer);
            return true;
        });
        driver.commands.put("send_in_transaction", (arguments) -> {
            TransactionMQProducer producer = driver.handle(arguments, "producer");
            TransactionSendResult result = producer.sendMessageInTransaction(
                Driver.message(arguments.getJSONObject("message")),
                new LocalTransactionExecuter() {
                    public LocalTransactionState executeLocalTransactionBranch(Message message, Object argument) {
                        return Checks.local(message);
                    }
                },
                null);
            Map<String, Object> sent = Sending.describe(result);
            sent.put("transaction_id", result.getMsgId());
            return sent;
        });
        driver.commands.put("close_transaction_producer", driver.commands.get("close_producer"));
    }
}
