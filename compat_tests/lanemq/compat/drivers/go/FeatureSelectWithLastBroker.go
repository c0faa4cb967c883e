package main

import "github.com/apache/rocketmq-client-go/v2/primitive"

// Select is the interface of a queue selector from 2.1.2 on: a retry names the broker that failed.
func (c *chooser) Select(
	m *primitive.Message, queues []*primitive.MessageQueue, lastBroker string,
) *primitive.MessageQueue {
	return c.choose(m, queues, func() *primitive.MessageQueue {
		return c.turns.Select(m, queues, lastBroker)
	})
}
