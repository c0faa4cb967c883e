package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type etcdStore struct{ client *clientv3.Client }

type etcdWorker struct {
	client   *clientv3.Client
	own      string
	revision int64
}

func openEtcd(address string) (store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{address},
		DialTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &etcdStore{client}, nil
}

func (s *etcdStore) close() { s.client.Close() }

func (s *etcdStore) worker(number int) (worker, error) {
	w := &etcdWorker{client: s.client, own: fmt.Sprintf("own/%d", number)}
	_, err := s.client.Delete(context.Background(), w.own)
	return w, err
}

func (w *etcdWorker) put(key string, value []byte) error {
	_, err := w.client.Put(context.Background(), key, string(value))
	return err
}

func (w *etcdWorker) get(key string) error {
	found, err := w.client.Get(context.Background(), key)
	if err == nil && len(found.Kvs) != 1 {
		return fmt.Errorf("etcd has no key %s", key)
	}
	return err
}

func (w *etcdWorker) cas(value []byte) error {
	done, err := w.client.Txn(context.Background()).
		If(clientv3.Compare(clientv3.ModRevision(w.own), "=", w.revision)).
		Then(clientv3.OpPut(w.own, string(value))).
		Commit()
	if err != nil {
		return err
	}
	if !done.Succeeded {
		return fmt.Errorf("etcd: %s is not at revision %d", w.own, w.revision)
	}
	w.revision = done.Header.Revision
	return nil
}
