package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lists of bytes are encoded as pgx encodes them, and at once.
func TestLists(t *testing.T) {
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	useLists(ours)
	long := bytes.Repeat([]byte("x"), 1200)
	for _, list := range [][][]byte{nil, {}, {{}}, {{0}}, {long}, {{1, 2}, {}, long, {3}}} {
		for _, before := range [][]byte{nil, []byte("before"), make([]byte, 5, 4096)} {
			for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
				want, err := theirs.Encode(pgtype.ByteaArrayOID, format, list, bytes.Clone(before))
				require.NoError(t, err)
				have, err := ours.Encode(pgtype.ByteaArrayOID, format, list, bytes.Clone(before))
				require.NoError(t, err)
				assert.Equal(t, want, have)
			}
		}
	}
	have, err := ours.Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, [][]byte{nil}, nil)
	require.NoError(t, err)
	var back [][]byte
	require.NoError(t, theirs.Scan(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, have, &back))
	assert.Equal(t, [][]byte{{}}, back, "nil is no null")

	batch := make([][]byte, 64)
	for i := range batch {
		batch[i] = long
	}
	plan := ours.PlanEncode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, batch)
	allocs := testing.AllocsPerRun(10, func() { _, _ = plan.Encode(batch, nil) })
	assert.Less(t, allocs, 5.0, "one for the list, whatever there is of the race detector's")
}
