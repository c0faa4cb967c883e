package main

import "github.com/apache/rocketmq-client-go/v2/primitive"

// Select is the interface of a queue selector up to 2.1.1.
func (c *chooser) Select(m *primitive.Message, queues []*primitive.MessageQueue) *primitive.MessageQueue {
	return c.choose(m, queues, func() *primitive.MessageQueue { return c.turns.Select(m, queues) })
}
