// Drives the Go client: a JSON object per line on stdin asks for one call of its API, a JSON
// object per line on stdout answers it or reports a received message. Nothing is decided here;
// what should happen is known by whoever asks.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const version = "@VERSION@"

type message struct {
	Topic      string            `json:"topic"`
	Body       []byte            `json:"body"`
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Flag       int32             `json:"flag"`
	DelayLevel int               `json:"delay_level"`
	Properties map[string]string `json:"properties"`
}

// request holds the arguments of every command; each reads its own.
type request struct {
	ID                int64     `json:"id"`
	Command           string    `json:"command"`
	Name              string    `json:"name"`
	Group             string    `json:"group"`
	NameServer        string    `json:"name_server"`
	Producer          string    `json:"producer"`
	Mode              string    `json:"mode"`
	Message           message   `json:"message"`
	Messages          []message `json:"messages"`
	QueueID           *int      `json:"queue_id"`
	Topic             string    `json:"topic"`
	Tags              string    `json:"tags"`
	SQL               string    `json:"sql"`
	Orderly           bool      `json:"orderly"`
	Broadcasting      bool      `json:"broadcasting"`
	FailFirst         int       `json:"fail_first"`
	MaxReconsumeTimes *int32    `json:"max_reconsume_times"`
}

type object map[string]interface{}

// absent says that the API of this release has no such thing.
type absent struct{ reason string }

func (a absent) Error() string { return a.reason }

var (
	wire     = bufio.NewWriter(os.Stdout)
	wireLock sync.Mutex
	// handles holds whatever a command opened, by the name it was given.
	handles  sync.Map
	commands = map[string]func(*request) (interface{}, error){
		"open_producer":  openProducer,
		"close_producer": closeProducer,
		"send":           send,
		"send_batch":     sendBatch,
		"open_consumer":  openConsumer,
		"close_consumer": closeConsumer,
		"open_puller":    noPuller,

		"open_transaction_producer":  openTransactionProducer,
		"close_transaction_producer": closeTransactionProducer,
		"send_in_transaction":        sendInTransaction,
	}
)

func main() {
	rlog.SetLogLevel("error")
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0) // whoever drove us is gone
		}
		asked := new(request)
		if err := json.Unmarshal(line, asked); err != nil {
			fmt.Fprintln(os.Stderr, "bad request:", err)
			os.Exit(1)
		}
		go answer(asked)
	}
}

func answer(asked *request) {
	reply := object{"id": asked.ID}
	result, err := run(asked)
	var missing absent
	switch {
	case err == nil:
		reply["result"] = result
	case errors.As(err, &missing):
		reply["not_applicable"] = missing.reason
	default:
		fmt.Fprintln(os.Stderr, asked.Command, err)
		reply["error"] = strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		reply["code"] = codeOf(err)
		reply["message"] = err.Error()
	}
	write(reply)
}

func run(asked *request) (result interface{}, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	command, known := commands[asked.Command]
	if !known {
		return nil, absent{"the API of the Go client " + version + " has no " + asked.Command}
	}
	return command(asked)
}

// codeOf finds the response code of the server in an error's text: the client's own types keep
// it in different places, and one of them in an unexported field.
func codeOf(err error) interface{} {
	text := err.Error()
	if strings.HasPrefix(text, "the message is illegal") {
		return 13 // the only code for which the client has a text of its own instead
	}
	at := strings.Index(text, "CODE: ")
	if at < 0 {
		return nil
	}
	digits := strings.Fields(text[at+len("CODE: "):])
	if len(digits) == 0 {
		return nil
	}
	code, err := strconv.Atoi(strings.TrimSuffix(digits[0], ","))
	if err != nil {
		return nil
	}
	return code
}

func write(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot say:", err)
		os.Exit(1)
	}
	wireLock.Lock()
	defer wireLock.Unlock()
	wire.Write(text)
	wire.WriteByte('\n')
	wire.Flush()
}

func handle[T any](name string) (T, error) {
	opened, known := handles.Load(name)
	if !known {
		var nothing T
		return nothing, fmt.Errorf("nothing open as %s", name)
	}
	return opened.(T), nil
}

func build(from message) *primitive.Message {
	built := primitive.NewMessage(from.Topic, from.Body)
	built.Flag = from.Flag
	for key, value := range from.Properties {
		built.WithProperty(key, value)
	}
	if from.Tags != "" {
		built.WithTag(from.Tags)
	}
	if from.Keys != "" {
		built.WithKeys(strings.Split(from.Keys, " "))
	}
	if from.DelayLevel > 0 {
		built.WithDelayTimeLevel(from.DelayLevel)
	}
	return built
}

func describe(seen *primitive.MessageExt) object {
	queueID := -1
	if seen.Queue != nil {
		queueID = seen.Queue.QueueId
	}
	body := seen.Body
	if body == nil {
		body = []byte{}
	}
	return object{
		"topic":              seen.Topic,
		"body":               body,
		"tags":               orNull(seen.GetTags()),
		"keys":               orNull(seen.GetKeys()),
		"flag":               seen.Flag,
		"properties":         seen.GetProperties(),
		"queue_id":           queueID,
		"queue_offset":       seen.QueueOffset,
		"reconsume_times":    seen.ReconsumeTimes,
		"message_id":         seen.MsgId,
		"offset_id":          seen.OffsetMsgId,
		"born_timestamp_ms":  seen.BornTimestamp,
		"store_timestamp_ms": seen.StoreTimestamp,
	}
}

func orNull(text string) interface{} {
	if text == "" {
		return nil
	}
	return text
}
