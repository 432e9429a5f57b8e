package letgo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// No call waits for a state: calls end, and their session is closed, while the store does not
// answer SaveState. Close waits for it.
func TestNoCallWaitsForAState(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	asked, goOn := make(chan bool, 10), make(chan bool)
	store := &forgetful{keeping: &keeping{fork: newFork(t, proofgraph.NewMemory())}}
	store.onSave = func() error {
		asked <- true
		<-goOn
		return nil
	}
	w := busy(t, store, 66_000, 20)
	_, err := w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	<-asked
	was := len(lines(t, store))
	w.quietly(20)
	w.close("quiet")
	_, err = w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	assert.Equal(t, was+41, len(lines(t, store)))
	assert.Empty(t, asked, "one at a time")
	close(goOn)
	require.NoError(t, w.kernel.Close())
}
