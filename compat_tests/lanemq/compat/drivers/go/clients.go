package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// chooser sends a message to the queue that was asked for, others in turn.
type chooser struct {
	chosen sync.Map // *primitive.Message -> queue id
	turns  producer.QueueSelector
}

// choose returns nil where the queue that was asked for does not exist.
func (c *chooser) choose(
	m *primitive.Message, queues []*primitive.MessageQueue, turn func() *primitive.MessageQueue,
) *primitive.MessageQueue {
	wanted, asked := c.chosen.Load(m)
	if !asked {
		return turn()
	}
	for _, queue := range queues {
		if queue.QueueId == wanted.(int) {
			return queue
		}
	}
	return nil
}

type openedProducer struct {
	rocketmq.Producer
	chooser *chooser
}

func openProducer(asked *request) (interface{}, error) {
	queues := &chooser{turns: producer.NewRoundRobinQueueSelector()}
	made, err := rocketmq.NewProducer(
		producer.WithGroupName(asked.Group),
		producer.WithInstanceName(asked.Name),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{asked.NameServer})),
		producer.WithQueueSelector(queues),
	)
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	handles.Store(asked.Name, &openedProducer{made, queues})
	return true, nil
}

func closeProducer(asked *request) (interface{}, error) {
	opened, err := handle[*openedProducer](asked.Name)
	if err != nil {
		return nil, err
	}
	handles.Delete(asked.Name)
	return true, opened.Shutdown()
}

func send(asked *request) (interface{}, error) {
	opened, err := handle[*openedProducer](asked.Producer)
	if err != nil {
		return nil, err
	}
	built := build(asked.Message)
	if asked.QueueID != nil {
		opened.chooser.chosen.Store(built, *asked.QueueID)
		defer opened.chooser.chosen.Delete(built)
	}
	background := context.Background()
	switch asked.Mode {
	case "oneway":
		return nil, opened.SendOneWay(background, built)
	case "async":
		type answer struct {
			result *primitive.SendResult
			err    error
		}
		answers := make(chan answer, 1)
		err := opened.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
			answers <- answer{result, err}
		}, built)
		if err != nil {
			return nil, err
		}
		select {
		case got := <-answers:
			return describeSend(got.result, got.err)
		case <-time.After(time.Minute):
			return nil, errors.New("no callback within a minute")
		}
	}
	result, err := opened.SendSync(background, built)
	return describeSend(result, err)
}

func sendBatch(asked *request) (interface{}, error) {
	opened, err := handle[*openedProducer](asked.Producer)
	if err != nil {
		return nil, err
	}
	var batch []*primitive.Message
	for _, one := range asked.Messages {
		batch = append(batch, build(one))
	}
	result, err := opened.SendSync(context.Background(), batch...)
	return describeSend(result, err)
}

func describeSend(result *primitive.SendResult, err error) (interface{}, error) {
	if err != nil {
		return nil, err
	}
	names := map[primitive.SendStatus]string{
		primitive.SendOK:                "SEND_OK",
		primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
		primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
		primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
	}
	return object{
		"status":       names[result.Status],
		"message_id":   result.MsgID,
		"offset_id":    result.OffsetMsgID,
		"queue_id":     result.MessageQueue.QueueId,
		"queue_offset": result.QueueOffset,
	}, nil
}

func openConsumer(asked *request) (interface{}, error) {
	options := []consumer.Option{
		consumer.WithGroupName(asked.Group),
		consumer.WithInstance(asked.Name),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{asked.NameServer})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(asked.Orderly),
	}
	if asked.Broadcasting {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if asked.MaxReconsumeTimes != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(*asked.MaxReconsumeTimes))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: asked.Tags}
	if asked.SQL != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: asked.SQL}
	}
	if err := made.Subscribe(asked.Topic, selector, report(asked)); err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	handles.Store(asked.Name, made)
	return true, nil
}

func closeConsumer(asked *request) (interface{}, error) {
	opened, err := handle[rocketmq.PushConsumer](asked.Name)
	if err != nil {
		return nil, err
	}
	handles.Delete(asked.Name)
	return true, opened.Shutdown()
}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// report tells the harness of deliveries, and fails the first so many of each body.
func report(asked *request) listener {
	var lock sync.Mutex
	attempts := map[string]int{}
	return func(_ context.Context, batch ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		all := true
		for _, one := range batch {
			lock.Lock()
			attempts[string(one.Body)]++
			succeeded := attempts[string(one.Body)] > asked.FailFirst
			lock.Unlock()
			all = all && succeeded
			write(object{
				"event":     "message",
				"consumer":  asked.Name,
				"succeeded": succeeded,
				"message":   describe(one),
			})
		}
		switch {
		case all:
			return consumer.ConsumeSuccess, nil
		case asked.Orderly:
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		return consumer.ConsumeRetryLater, nil
	}
}

// noPuller says why the client's pull consumer cannot be driven like that of other clients.
func noPuller(*request) (interface{}, error) {
	opened, err := rocketmq.NewPullConsumer()
	if err == nil && opened != nil {
		return nil, absent{"the pull consumer of the Go client " + version +
			" can list no queues, and ask for no bounds or times"}
	}
	return nil, absent{"NewPullConsumer of the Go client " + version + " answers: " + fmt.Sprint(err)}
}
