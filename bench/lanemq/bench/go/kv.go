// Drives a store of keys, lanemq's or etcd's: a command a line on the standard input, JSON both ways.
//
//	{"id": 1, "command": "measure", "server": "etcd", "address": "127.0.0.1:2379",
//	 "operation": "put", "clients": 64, "seconds": 2.0, "keys": 10000, "value_bytes": 100}
//	{"id": 1, "result": {"operations": 9000, "seconds": 2.0, "p50_us": 110.0, "p99_us": 300.0}}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"sync"
	"time"
)

type command struct {
	ID         int     `json:"id"`
	Server     string  `json:"server"`
	Address    string  `json:"address"`
	Operation  string  `json:"operation"`
	Clients    int     `json:"clients"`
	Seconds    float64 `json:"seconds"`
	Keys       int     `json:"keys"`
	ValueBytes int     `json:"value_bytes"`
}

// A worker does one operation after the other.
type worker interface {
	put(key string, value []byte) error
	get(key string) error
	// Replaces the worker's own key, if it is as the worker left it.
	cas(value []byte) error
}

type store interface {
	worker(number int) (worker, error)
	close()
}

func open(server, address string) (store, error) {
	if server == "etcd" {
		return openEtcd(address)
	}
	return openLanemq(address)
}

func keyOf(number int) string { return fmt.Sprintf("key/%08d", number) }

func fill(s store, c command, value []byte) error {
	var group sync.WaitGroup
	failures := make(chan error, 16)
	for part := 0; part < 16; part++ {
		w, err := s.worker(1000 + part)
		if err != nil {
			return err
		}
		group.Add(1)
		go func(part int) {
			defer group.Done()
			for number := part; number < c.Keys; number += 16 {
				if err := w.put(keyOf(number), value); err != nil {
					failures <- err
					return
				}
			}
		}(part)
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func measure(c command) (map[string]any, error) {
	s, err := open(c.Server, c.Address)
	if err != nil {
		return nil, err
	}
	defer s.close()
	value := make([]byte, c.ValueBytes)
	if c.Operation == "fill" {
		begun := time.Now()
		err := fill(s, c, value)
		return map[string]any{"operations": c.Keys, "seconds": time.Since(begun).Seconds()}, err
	}
	taken := make([][]float64, c.Clients)
	failures := make(chan error, c.Clients)
	var group sync.WaitGroup
	begun := time.Now()
	end := begun.Add(time.Duration(c.Seconds * float64(time.Second)))
	for number := 0; number < c.Clients; number++ {
		w, err := s.worker(number)
		if err != nil {
			return nil, err
		}
		group.Add(1)
		go func(number int) {
			defer group.Done()
			random := rand.New(rand.NewSource(time.Now().UnixNano() + int64(number)))
			for now := time.Now(); ; { // once at least, however late this is
				var err error
				switch c.Operation {
				case "put":
					err = w.put(keyOf(random.Intn(c.Keys)), value)
				case "get":
					err = w.get(keyOf(random.Intn(c.Keys)))
				default:
					err = w.cas(value)
				}
				if err != nil {
					failures <- err
					return
				}
				then := time.Now()
				taken[number] = append(taken[number], float64(then.Sub(now).Nanoseconds())/1000)
				now = then
				if !now.Before(end) {
					return
				}
			}
		}(number)
	}
	group.Wait()
	seconds := time.Since(begun).Seconds()
	select {
	case err := <-failures:
		return nil, err
	default:
	}
	var all []float64
	for _, some := range taken {
		all = append(all, some...)
	}
	sort.Float64s(all)
	return map[string]any{
		"operations": len(all),
		"seconds":    seconds,
		"p50_us":     all[len(all)/2],
		"p99_us":     all[len(all)*99/100],
	}, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		answer := map[string]any{}
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			answer["result"], err = measure(c)
		}
		if err != nil {
			answer = map[string]any{"error": "failed", "message": err.Error()}
		}
		answer["id"] = c.ID
		answers.Encode(answer)
	}
}
