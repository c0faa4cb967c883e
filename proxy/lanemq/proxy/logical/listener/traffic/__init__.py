"""Messages on their way in and out, single messages, and the locks of queues."""
