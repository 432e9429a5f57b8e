package mcp

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A drained transport counts what is asked and not answered, since a session of the SDK that is
// closed answers nothing more.
type drained struct {
	sdk.Transport
	sdk.Connection

	mu      sync.Mutex
	open    int
	closing bool
	still   chan struct{} // closed when it closes and nothing is open
}

func (d *drained) Connect(ctx context.Context) (sdk.Connection, error) {
	var err error
	d.Connection, err = d.Transport.Connect(ctx)
	return d, err
}

func (d *drained) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := d.Connection.Read(ctx)
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
			if !d.begin() {
				continue // it is not answered, as by a process that has ended
			}
			if r.Extra == nil {
				r.Extra = &sdk.RequestExtra{Header: http.Header{rpcID: {requestID(r.ID.Raw())}}}
			}
		}
		return m, err
	}
}

func (d *drained) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closing {
		d.open++
	}
	return !d.closing
}

func (d *drained) Write(ctx context.Context, m jsonrpc.Message) error {
	err := d.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.open--; d.closing && d.open == 0 {
			close(d.still)
		}
	}
	return err
}

// drain takes no new call, and waits for those that run.
func (d *drained) drain(closed <-chan struct{}) {
	d.mu.Lock()
	if !d.closing {
		d.closing = true
		if d.open == 0 {
			close(d.still)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.still:
	case <-closed:
	}
}
