"""Operations on logical queues: surveys of brokers, plans, and the steps that follow them."""
