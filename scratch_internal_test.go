package helm

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
)

// A call that read the arguments of an earlier one, however large, leaves no more memory to the next call than others do.
func TestReadingLeavesNoMemory(t *testing.T) {
	p := policyOf(t, `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
		"tools":{"t":{"effect":"read","input":{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer"}}}}}},
		"rules":[{"id":"all","allow":"t"}]}`)
	k, err := New(Options{Policy: p, Key: keyOf(t, 7), Store: proofgraph.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const many = 100_000
	args := `{"list":[` + strings.Repeat("1,", many) + `1]}`
	d, r := k.Guard(context.Background(), Intent{Tool: "t", Args: []byte(args), Session: "s",
		Driver: Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return []byte(`{}`), nil })})
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	c := &call{Kernel: k, ctx: context.Background()}
	c.taken = c.take
	v, err := c.argsOf(past.Run{Decision: r.Index - 1})
	if err != nil || v.Get("list").Len() != many+1 {
		t.Fatalf("%d values were read: %v", v.Get("list").Len(), err)
	}
	if c.free(); c.Kernel != nil {
		t.Fatal("the call was not freed")
	}
	if n := sliced(reflect.ValueOf(c).Elem()); n > 4*maxScratch {
		t.Errorf("a freed call holds %d bytes", n)
	}
}

// sliced is how many bytes stand in slices below a value, pointers not followed.
func sliced(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Slice:
		return v.Cap() * int(v.Type().Elem().Size())
	case reflect.Struct:
		for i := range v.NumField() {
			n += sliced(v.Field(i))
		}
	}
	return n
}
