package several

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	require.NoError(t, Join())
	require.NoError(t, Join(nil, nil))
	assert.Empty(t, All(nil))
	assert.Equal(t, io.EOF, Join(nil, io.EOF), "one error is itself")
	err := Join(io.EOF, nil, fs.ErrExist)
	assert.EqualError(t, err, "EOF\nfile already exists")
	require.ErrorIs(t, err, fs.ErrExist)
	assert.Equal(t, []error{io.EOF, fs.ErrExist, fs.ErrClosed}, All(Join(err, fs.ErrClosed)), "one by one")
	other := errors.Join(io.EOF, io.EOF)
	assert.Equal(t, []error{other}, All(other), "it is not ours")
}

func TestJoinBounded(t *testing.T) {
	t.Parallel()
	var all []error
	for i := range Most + 2 {
		all = append(all, fmt.Errorf("%d", i))
	}
	unwrapped := func(err error) []error { return err.(interface{ Unwrap() []error }).Unwrap() }
	assert.NotContains(t, Join(all[:Most]...).Error(), "more")
	err := Join(append(all[:Most:Most], Join(all[Most:]...))...)
	assert.Equal(t, all[:Most], unwrapped(err))
	assert.Contains(t, err.Error(), "19\nand 2 more")
	assert.Equal(t, all, All(err))
	_ = append(unwrapped(err), io.EOF)
	assert.Equal(t, all, All(err), "what is unwrapped is the caller's to append to")
}
