//go:build unix

package main

import (
	"context"
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/bench/peers"
)

// bare is what the machine needs for the parts of a call, while nothing else of this run is done.
type bare struct {
	file                 peers.Store
	signs, syncs, rounds []time.Duration
}

func (b *bare) open(path string) (err error) {
	b.file, err = peers.Zeroed(path)
	return err
}

// measure measures each part for a while, at most so many times.
func (b *bare) measure(conn *pgx.Conn, each time.Duration, most int) error {
	key, msg := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), make([]byte, 256)
	page := peers.Item{Entry: make([]byte, 4096)}
	for _, x := range []struct {
		times *[]time.Duration
		do    func() error
	}{
		{&b.signs, func() error { ed25519.Sign(key, msg); return nil }},
		{&b.syncs, func() error { return b.file.Put(page) }},
		{&b.rounds, func() error { return conn.Ping(context.Background()) }},
	} {
		start := time.Now()
		for n, t0 := 0, start; n < most && t0.Sub(start) < each; n++ {
			if err := x.do(); err != nil {
				return err
			}
			t1 := time.Now()
			*x.times = append(*x.times, t1.Sub(t0))
			t0 = t1
		}
	}
	return nil
}

// middle returns the median.
func middle(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
