"""Commands for logical queues: their mapping, migrations, brokers that leave."""
