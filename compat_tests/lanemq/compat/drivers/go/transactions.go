package main

import (
	"context"
	"strings"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// checks answers what a transaction's own message says: properties "local", and "checks".
type checks struct {
	producer string
	lock     sync.Mutex
	asked    map[string]int
}

func state(name string) primitive.LocalTransactionState {
	switch name {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (c *checks) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	return state(m.GetProperty("local"))
}

// CheckLocalTransaction answers the next of the message's states, the last one again and again.
func (c *checks) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	states := strings.Split(m.GetProperty("checks"), ",")
	c.lock.Lock()
	number := c.asked[string(m.Body)]
	c.asked[string(m.Body)]++
	c.lock.Unlock()
	write(object{"event": "message", "consumer": c.producer, "succeeded": true, "message": describe(m)})
	return state(states[min(number, len(states)-1)])
}

func openTransactionProducer(asked *request) (interface{}, error) {
	made, err := rocketmq.NewTransactionProducer(
		&checks{producer: asked.Name, asked: map[string]int{}},
		producer.WithGroupName(asked.Group),
		producer.WithInstanceName(asked.Name),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{asked.NameServer})),
	)
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	handles.Store(asked.Name, made)
	return true, nil
}

func closeTransactionProducer(asked *request) (interface{}, error) {
	opened, err := handle[rocketmq.TransactionProducer](asked.Name)
	if err != nil {
		return nil, err
	}
	handles.Delete(asked.Name)
	return true, opened.Shutdown()
}

func sendInTransaction(asked *request) (interface{}, error) {
	opened, err := handle[rocketmq.TransactionProducer](asked.Producer)
	if err != nil {
		return nil, err
	}
	result, err := opened.SendMessageInTransaction(context.Background(), build(asked.Message))
	if err != nil {
		return nil, err
	}
	described, err := describeSend(result.SendResult, nil)
	if sent, made := described.(object); made {
		sent["transaction_id"] = result.TransactionID
	}
	return described, err
}
