import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;

/** Subscriptions by SQL92: 4.1 and later. */
final class FeatureSelectors {
    private FeatureSelectors() {
    }

    static void register(final Driver driver) {
        driver.sqlSubscriber = (consumer, topic, sql) -> consumer.subscribe(topic, MessageSelector.bySql(sql));
    }
}
