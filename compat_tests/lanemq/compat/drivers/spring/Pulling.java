/** The starter has no pull consumer whose queues and offsets an application sees. */
final class Pulling {
    private Pulling() {
    }

    static void register(Driver driver) {
    }
}
