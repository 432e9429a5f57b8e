package peers

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"
)

// A boltStore is a bbolt database with default options: each commit is synced. A record is one key,
// its number, and one value.
type boltStore struct {
	db    *bbolt.DB
	batch bool // DB.Batch, which puts the items of many goroutines into one transaction
}

var bucket = []byte("receipts")

// Bolt makes a database in which each put is a DB.Update.
func Bolt(path string) (Store, error) { return newBolt(path, false) }

// BoltBatched makes a database in which each put is a DB.Batch.
func BoltBatched(path string) (Store, error) { return newBolt(path, true) }

func newBolt(path string, batch bool) (Store, error) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, err
	}
	return &boltStore{db, batch}, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
}

func (b *boltStore) Put(items ...Item) error {
	write := func(tx *bbolt.Tx) error {
		for _, it := range items {
			value := binary.BigEndian.AppendUint32(nil, uint32(len(it.Entry)))
			value = append(append(value, it.Entry...), it.Inputs...)
			if err := tx.Bucket(bucket).Put(binary.BigEndian.AppendUint64(nil, it.Key), value); err != nil {
				return err
			}
		}
		return nil
	}
	if b.batch {
		return b.db.Batch(write)
	}
	return b.db.Update(write)
}

func (b *boltStore) Reopen(each func(Item) error) error {
	path := b.db.Path()
	if b.db.NoSync || b.db.NoGrowSync {
		return errors.New("bbolt did not sync")
	}
	if err := b.db.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			n := 4 + binary.BigEndian.Uint32(v)
			return each(Item{binary.BigEndian.Uint64(k), v[4:n], v[n:]})
		})
	})
}
