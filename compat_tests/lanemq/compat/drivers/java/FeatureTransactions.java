import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions as from 4.3 on: one listener does them and answers for them. */
final class FeatureTransactions {
    private FeatureTransactions() {
    }

    static void register(final Driver driver) {
        driver.commands.put("open_transaction_producer", (arguments) -> {
            TransactionMQProducer producer = new TransactionMQProducer(arguments.getString("group"));
            driver.configure(producer, arguments);
            producer.setSendMsgTimeout(15000);
            final Checks checks = new Checks(arguments.getString("name"));
            producer.setTransactionListener(new TransactionListener() {
                public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                    return Checks.local(message);
                }

                public LocalTransactionState checkLocalTransaction(MessageExt message) {
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
                Driver.message(arguments.getJSONObject("message")), null);
            Map<String, Object> sent = Sending.describe(result);
            sent.put("transaction_id", result.getTransactionId());
            return sent;
        });
        driver.commands.put("close_transaction_producer", driver.commands.get("close_producer"));
    }
}
