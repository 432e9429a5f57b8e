package cell

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

type driver struct{ n int }

var info = contracts.SandboxInfo{Profile: "box", Module: contracts.Digest{1}, Meter: 1,
	Grants: &contracts.Sandbox{Env: []string{"A"}, Files: map[string]string{"/a": "read"}}}

func answer(n uint64) func(context.Context, contracts.Call) (Result, error) {
	return func(context.Context, contracts.Call) (Result, error) { return Result{Gas: n}, errors.ErrUnsupported }
}

// A cell is taken by its owner alone, and what was taken stays what it was.
func TestTake(t *testing.T) {
	t.Parallel()
	mine, other := &driver{1}, &driver{2}
	c, theirs := New(mine, info, []byte("m"), answer(1)), New(other, info, nil, answer(2))
	copied := *c
	for name, x := range map[string]struct {
		c      *Cell
		driver any
		ok     bool
	}{
		"its owner": {c, mine, true}, "a copy, by the owner": {&copied, mine, true},
		"another": {c, other, false}, "an equal driver": {c, &driver{1}, false}, "a copy of the driver": {c, *mine, false},
		"nobody": {c, nil, false}, "nil": {nil, mine, false}, "nil by nobody": {nil, nil, false},
		"zero": {new(Cell), mine, false}, "zero by nobody": {new(Cell), nil, false},
		"zero by reflection":  {reflect.New(reflect.TypeOf(copied)).Interface().(*Cell), mine, false},
		"without a function":  {New(mine, info, nil, nil), mine, false},
		"without an owner":    {New(nil, info, nil, answer(1)), nil, false},
		"owner is no pointer": {New(*mine, info, nil, answer(1)), *mine, false},
		"without a profile":   {New(mine, contracts.SandboxInfo{Grants: info.Grants, Meter: 1}, nil, answer(1)), mine, false},
		"without grants":      {New(mine, contracts.SandboxInfo{Profile: "box", Meter: 1}, nil, answer(1)), mine, false},
	} {
		taken := Take(x.c, x.driver)
		require.Equal(t, x.ok, taken != nil, name)
		if !x.ok {
			continue
		}
		result, err := Run(t.Context(), taken, contracts.Call{})
		assert.True(t, result.Gas == 1 && err == errors.ErrUnsupported && string(Module(taken)) == "m", name)
	}
	taken := Take(c, mine)
	*c = *theirs
	result, _ := Run(t.Context(), taken, contracts.Call{})
	assert.EqualValues(t, 1, result.Gas, "what was taken changed")
	assert.Nil(t, Take(c, mine), "the cell of another is taken")
	*c = Cell{}
	assert.Nil(t, Take(c, mine))
	assert.Equal(t, contracts.SandboxInfo{}, c.Info())
	assert.Equal(t, contracts.SandboxInfo{}, (*Cell)(nil).Info())
}

// A cell shares no memory with what New was given, nor with what Info returns.
func TestInfoIsACopy(t *testing.T) {
	t.Parallel()
	d, given := new(driver), info.Clone()
	c := New(d, given, nil, answer(1))
	hash := *info.GrantsHash()
	spoil := func(i contracts.SandboxInfo) {
		i.Grants.Gas, i.Grants.Env[0], i.Grants.Files["/a"] = 7, "B", "write"
	}
	spoil(given)
	got := c.Info()
	assert.Equal(t, info, got)
	spoil(got)
	assert.Equal(t, info, c.Info())
	assert.Equal(t, hash, *Declared(Take(c, d)).GrantsHash())
	assert.Equal(t, info.Grants, Declared(Take(c, d)).Grants)
}
