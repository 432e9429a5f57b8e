//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// settings are those of a server as it is installed, where those of tests are others.
var settings = []string{"shared_buffers=128MB", "max_connections=100"}

// A bench is a run.
type bench struct {
	plan
	dir      string
	server   *pgtest.Server
	database string
	proxy    *proxy    // nil without a delay
	conn     *pgx.Conn // to the server, as processes have it
	watch    *pgx.Conn // to the server, without the proxy
	seed     [32]byte  // of the kernels' key
	logs     []*log
	results  results
	disk     *children // nil without another program
	synced   int       // writes of that program
	took     time.Duration
	bare     bare
	version  string // of the server, and its settings
}

// A log is what a row writes to.
type log struct {
	row
	dir    string // of a log in files
	schema string // of a log in the database
	run    *children
	calls  int // all that were made
}

func newBench(p plan) (_ *bench, err error) {
	b := &bench{plan: p, results: results{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	ctx := context.Background()
	if _, err := rand.Read(b.seed[:]); err != nil {
		return b, err
	}
	if b.dir, err = os.MkdirTemp("", "helm-bench-"); err != nil {
		return b, err
	}
	if b.server, err = pgtest.Start(settings...); err != nil {
		return b, err
	}
	if b.database, err = b.server.Database(ctx); err != nil {
		return b, err
	}
	if p.delay > 0 {
		if b.proxy, err = newProxy(b.server.Socket(), p.delay); err != nil {
			return b, err
		}
	}
	if b.conn, err = pgx.Connect(ctx, b.url()); err != nil {
		return b, err
	}
	if b.watch, err = pgx.Connect(ctx, b.server.URL(b.database)); err != nil {
		return b, err
	}
	if err := b.watch.QueryRow(ctx, "SHOW server_version").Scan(&b.version); err != nil {
		return b, err
	}
	b.version = "PostgreSQL " + b.version + " with " + settings[0]
	if p.aged {
		if err := b.age(ctx); err != nil {
			return b, err
		}
	}
	if err := b.bare.open(filepath.Join(b.dir, "raw")); err != nil {
		return b, err
	}
	if p.disk {
		if err := b.startDisk(); err != nil {
			return b, err
		}
	}
	for i, r := range p.rows() {
		l := &log{row: r}
		b.logs = append(b.logs, l)
		if err := b.begin(l, i, i == len(p.rows())-1); err != nil {
			return b, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return b, nil
}

// age brings the server into the state of one that has had much to write: it writes to the files of
// its log that it no longer needs. A new one makes each file as it comes to it, in an append.
func (b *bench) age(ctx context.Context) error {
	const files = 70 // above 1 GB, which is max_wal_size
	for range 2 {
		for range files {
			_, err := b.watch.Exec(ctx, "SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()")
			if err != nil {
				return err
			}
		}
		if _, err := b.watch.Exec(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	return nil
}

// url returns the connection string of processes.
func (b *bench) url() string {
	url := b.server.URL(b.database)
	if b.proxy != nil {
		url = strings.Replace(url, "host="+b.server.Dir(), "host="+b.proxy.dir, 1)
	}
	return url
}

// begin starts the processes of a row.
func (b *bench) begin(l *log, i int, last bool) error {
	if l.shared {
		l.schema = fmt.Sprint("bench", i)
		if err := postgres.Migrate(context.Background(), b.watch, l.schema); err != nil {
			return err
		}
	} else {
		l.dir = filepath.Join(b.dir, fmt.Sprint(i))
	}
	l.run = new(children)
	for n := range l.processes {
		j := job{Seed: b.seed[:], Process: n, Callers: l.callers, Budget: l.budget, Files: l.dir,
			URL: b.url() + " pool_max_conns=2", Schema: l.schema, Alone: l.alone}
		if last && n == 0 {
			j.Profile = b.profile
		}
		if err := l.run.start(j); err != nil {
			return err
		}
	}
	return l.run.ready()
}

func (b *bench) startDisk() error {
	dir := filepath.Join(b.dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	b.disk = new(children)
	if err := b.disk.start(job{Disk: dir}); err != nil {
		return err
	}
	return b.disk.ready()
}

// measure runs the rows by turns, so that other uses of the machine meet them all. The first turn
// of a row warms it and is not counted.
func (b *bench) measure() error {
	began := time.Now()
	for n := range b.turns + 1 {
		if err := b.bare.measure(b.conn, min(b.each/10, 300*time.Millisecond), b.most); err != nil {
			return err
		}
		for i := range b.logs {
			l := b.logs[rowAt(i, n, len(b.logs))]
			t, err := b.turn(l)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if l.calls += len(t.took); n > 0 {
				b.results[l.name] = append(b.results[l.name], t)
			}
		}
	}
	b.took = time.Since(began)
	if b.disk != nil {
		reports, err := b.disk.order(order{})
		if err != nil {
			return err
		}
		b.synced = reports[0].Syncs
	}
	for _, l := range b.logs {
		if err := l.run.end(); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// rowAt returns which of so many rows is the place-th of the n-th turn. Turns begin with each row,
// and go forward and backward, so that no row always follows the same other one.
func rowAt(place, n, rows int) int {
	i := (place + n) % rows
	if n%2 == 1 {
		i = rows - 1 - i
	}
	return i
}

// turn measures a row once.
func (b *bench) turn(l *log) (*turn, error) {
	before, err := b.usage(l)
	if err != nil {
		return nil, err
	}
	reports, err := l.run.order(order{For: b.each, Most: b.most})
	if err != nil {
		return nil, err
	}
	after, err := b.usage(l)
	if err != nil {
		return nil, err
	}
	t := &turn{server: after.cpu - before.cpu, tables: after.tables - before.tables, wal: after.wal - before.wal,
		trips: after.trips - before.trips}
	for _, r := range reports {
		t.took = append(t.took, r.Took...)
		t.wall, t.kernel = max(t.wall, r.Wall), t.kernel+r.CPU
		t.appends.add(r.Appends)
	}
	if len(t.took) == 0 || t.appends.Entries != 2*len(t.took) {
		return nil, fmt.Errorf("%d calls have appended %d entries", len(t.took), t.appends.Entries)
	}
	slices.Sort(t.took)
	return t, nil
}

// A usage is what was used of the server so far.
type usage struct {
	cpu         time.Duration
	tables, wal int64
	trips       int64
}

func (b *bench) usage(l *log) (u usage, err error) {
	if !l.shared {
		return u, nil
	}
	if b.proxy != nil {
		u.trips = b.proxy.trips.Load()
	}
	if u.cpu, err = serverTime(b.server.Pid()); err != nil {
		return u, err
	}
	return u, b.watch.QueryRow(context.Background(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint,
		(SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
			WHERE relkind = 'r' AND relnamespace = $1::regnamespace)`, l.schema).Scan(&u.wal, &u.tables)
}

// close ends what runs, and removes all files.
func (b *bench) close() error {
	var errs []error
	for _, l := range b.logs {
		l.run.kill()
	}
	b.disk.kill()
	for _, c := range []*pgx.Conn{b.conn, b.watch} {
		if c != nil {
			errs = append(errs, c.Close(context.Background()))
		}
	}
	if b.proxy != nil {
		errs = append(errs, b.proxy.listen.Close())
	}
	if b.server != nil {
		errs = append(errs, b.server.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}
