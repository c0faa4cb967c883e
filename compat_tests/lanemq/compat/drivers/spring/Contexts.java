import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.spring.autoconfigure.RocketMQAutoConfiguration;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.GenericApplicationContext;

/** An application of Spring Boot with the starter for each object that is opened. */
final class Contexts {
    private Contexts() {
    }

    @SpringBootConfiguration
    @ImportAutoConfiguration(RocketMQAutoConfiguration.class)
    static class Application {
    }

    /** Gives producers the time that those of other drivers have; no setting does. */
    static final class Patience implements BeanPostProcessor {
        @Override
        public Object postProcessBeforeInitialization(Object bean, String name) {
            if (bean instanceof DefaultMQProducer) {
                ((DefaultMQProducer) bean).setMqClientApiTimeout(15000);
            }
            return bean;
        }
    }

    /** Starts an application; a listener becomes one of its beans. */
    static ConfigurableApplicationContext open(
        JSONObject arguments, Map<String, Object> properties, Object listener) {
        Map<String, Object> settings = new HashMap<String, Object>(properties);
        settings.put("rocketmq.name-server", arguments.getString("name_server"));
        settings.put("spring.main.log-startup-info", "false");
        settings.put("spring.jmx.enabled", "false");
        SpringApplicationBuilder builder = new SpringApplicationBuilder(Application.class)
            .web(WebApplicationType.NONE)
            .bannerMode(Banner.Mode.OFF)
            .registerShutdownHook(false)
            .properties(settings)
            .initializers((ApplicationContextInitializer<GenericApplicationContext>) context ->
                context.getBeanFactory().addBeanPostProcessor(new Patience()));
        if (listener != null) {
            ApplicationContextInitializer<GenericApplicationContext> initializer = context ->
                registered(context, listener);
            builder.initializers(initializer);
        }
        return builder.run();
    }

    @SuppressWarnings("unchecked")
    private static <T> void registered(GenericApplicationContext context, T listener) {
        context.registerBean("listener", (Class<T>) listener.getClass(), () -> listener);
    }

    /** Stops what a command opened. */
    static Driver.Command closing(Driver driver) {
        return arguments -> {
            Object opened = driver.handles.remove(arguments.getString("name"));
            ((ConfigurableApplicationContext) opened).close();
            return true;
        };
    }
}
