package main

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

const (
	kvWrite = 310421
	kvGet   = 310422
)

type header struct {
	Code      int               `json:"code"`
	Flag      int               `json:"flag"`
	Language  string            `json:"language"`
	Opaque    int               `json:"opaque"`
	Version   int               `json:"version"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

type answer struct {
	header header
	body   []byte
}

// How many were opened: a writer is known by a name that no other had.
var opened atomic.Int64

// One connection, shared by all workers, as etcd's client has one.
type lanemqStore struct {
	connection net.Conn
	number     int64
	writing    sync.Mutex
	waiting    sync.Map
	opaque     int
}

type lanemqWorker struct {
	store    *lanemqStore
	client   string
	own      string
	sequence int
	version  int
}

func openLanemq(address string) (store, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &lanemqStore{connection: connection, number: opened.Add(1)}
	go s.read()
	return s, nil
}

func (s *lanemqStore) close() { s.connection.Close() }

func (s *lanemqStore) read() {
	input := bufio.NewReaderSize(s.connection, 1<<20)
	for {
		var sizes [8]byte
		if _, err := io.ReadFull(input, sizes[:]); err != nil {
			break
		}
		total := int(binary.BigEndian.Uint32(sizes[:4])) - 4
		length := int(binary.BigEndian.Uint32(sizes[4:])) & 0xffffff
		data := make([]byte, total)
		if _, err := io.ReadFull(input, data); err != nil {
			break
		}
		var a answer
		if err := json.Unmarshal(data[:length], &a.header); err != nil {
			break
		}
		a.body = data[length:]
		if waiting, ok := s.waiting.LoadAndDelete(a.header.Opaque); ok {
			waiting.(chan answer) <- a
		}
	}
	s.waiting.Range(func(_, waiting any) bool {
		waiting.(chan answer) <- answer{header: header{Code: 1, Remark: "the connection ended"}}
		return true
	})
}

func (s *lanemqStore) call(code int, fields map[string]string, body []byte) ([]byte, error) {
	waiting := make(chan answer, 1)
	s.writing.Lock()
	s.opaque++
	h, _ := json.Marshal(header{
		Code: code, Language: "GO", Opaque: s.opaque, Version: 407, ExtFields: fields,
	})
	frame := make([]byte, 0, 8+len(h)+len(body))
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(h)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(h)))
	frame = append(append(frame, h...), body...)
	s.waiting.Store(s.opaque, waiting)
	_, err := s.connection.Write(frame)
	s.writing.Unlock()
	if err != nil {
		return nil, err
	}
	a := <-waiting
	if a.header.Code != 0 {
		return nil, fmt.Errorf("lanemq answers %d: %s", a.header.Code, a.header.Remark)
	}
	return a.body, nil
}

func (s *lanemqStore) worker(number int) (worker, error) {
	w := &lanemqWorker{
		store:  s,
		client: fmt.Sprintf("bench-%d-%d-%d", os.Getpid(), s.number, number),
		own:    fmt.Sprintf("own/%d", number),
	}
	_, err := w.write("delete", step(w.own, 1, nil))
	return w, err
}

func (w *lanemqWorker) write(operation string, body []byte) ([]byte, error) {
	w.sequence++
	number := fmt.Sprint(w.sequence)
	return w.store.call(kvWrite, map[string]string{
		"opType": operation, "namespace": "bench", "createAt": "*",
		"client": w.client, "sequence": number, "waits": number,
	}, body)
}

func (w *lanemqWorker) put(key string, value []byte) error {
	_, err := w.write("put", step(key, 0, value))
	return err
}

func (w *lanemqWorker) get(key string) error {
	coded := base64.StdEncoding.EncodeToString([]byte(key))
	found, err := w.store.call(kvGet, map[string]string{"key": coded, "namespace": "bench"}, nil)
	if err == nil && len(found) < 2 {
		return fmt.Errorf("lanemq has no key %s", key)
	}
	return err
}

func (w *lanemqWorker) cas(value []byte) error {
	done, err := w.write("cas", step(w.own, 0, value, w.version))
	if err != nil {
		return err
	}
	if len(done) < 2 || done[1] != 0xc3 { // the first member, true as msgpack
		return fmt.Errorf("lanemq: %s is not at version %d", w.own, w.version)
	}
	// Behind it: the record's number, a list of one result, and the version there is now, which
	// begins above those of an entry that was deleted.
	_, at := unsigned(done, 2)
	w.version, _ = unsigned(done, at+2)
	return nil
}

// An unsigned number of msgpack, and where the next value begins.
func unsigned(data []byte, at int) (int, int) {
	switch first := data[at]; {
	case first < 0x80:
		return int(first), at + 1
	case first == 0xcc:
		return int(data[at+1]), at + 2
	case first == 0xcd:
		return int(binary.BigEndian.Uint16(data[at+1:])), at + 3
	case first == 0xce:
		return int(binary.BigEndian.Uint32(data[at+1:])), at + 5
	default:
		return int(binary.BigEndian.Uint64(data[at+1:])), at + 9
	}
}

// A list of one step as msgpack: key, action, value, and with a version the condition for it.
func step(key string, action byte, value []byte, version ...int) []byte {
	members := byte(3)
	if len(version) > 0 {
		members = 5
	}
	out := append([]byte{0x91, 0x90 | members}, bytesOf([]byte(key))...)
	out = append(append(out, action), bytesOf(value)...)
	if len(version) > 0 {
		out = append(out, 0, 0xce) // no ttl, then 32 bits
		out = binary.BigEndian.AppendUint32(out, uint32(version[0]))
	}
	return out
}

func bytesOf(data []byte) []byte {
	out := append([]byte{0xc6}, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(out[1:], uint32(len(data)))
	return append(out, data...)
}
