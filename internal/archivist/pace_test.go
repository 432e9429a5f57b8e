package archivist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/proofgraph"
)

// A sized store says how long its log is.
type sized struct {
	proofgraph.Store
	size uint64
	err  error
}

func (s *sized) Size(context.Context) (uint64, error) { return s.size, s.err }

// TestPace: reading has a seventh of the time while the log grows, and all of it while it does not.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &sized{size: 7}
		p := pace{store: log}
		work := func(d time.Duration, grows uint64, err error) time.Duration {
			began := time.Now()
			for range piece - 1 {
				p.line(t.Context())
			}
			time.Sleep(d)
			log.size, log.err = log.size+grows, err
			p.line(t.Context())
			return time.Since(began)
		}
		const ms = time.Millisecond
		assert.Equal(t, 10*ms, work(10*ms, 0, nil), "nothing is known of the log")
		assert.Equal(t, 10*ms, work(10*ms, 0, nil), "the log has not grown")
		assert.Equal(t, 70*ms, work(10*ms, 3, nil), "the log has grown")
		assert.Equal(t, 70*ms, work(10*ms, 1, nil), "a rest is no work")
		assert.Equal(t, 10*ms, work(10*ms, 0, nil), "the log has not grown any more")
		assert.Equal(t, 2*time.Second, work(time.Second, 1, nil), "the longest rest")
		assert.Equal(t, 10*ms, work(10*ms, 1, errors.New("not to be had")), "the store fails")
	})
}
