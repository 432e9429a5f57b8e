package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// A listCodec encodes bytea[] from lists of bytes. The codec of pgx, which has the rest, lets its
// buffer grow with each element: a batch was copied several times, and left as much to collect.
type listCodec struct{ pgtype.Codec }

// useLists has a connection encode bytea[] by a listCodec.
func useLists(types *pgtype.Map) {
	if t, ok := types.TypeForOID(pgtype.ByteaArrayOID); ok {
		types.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: listCodec{t.Codec}})
	}
}

func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([][]byte); ok && format == pgtype.BinaryFormatCode {
		return listPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type listPlan struct{}

// Encode appends a list as the server's array_recv reads it: the number of dimensions, whether
// there are nulls, the type, and of the one dimension its length and first index; then of each
// element its length and bytes. Nil is an empty element, not a null.
func (listPlan) Encode(value any, to []byte) ([]byte, error) {
	list := value.([][]byte)
	size := 4 * (5 + len(list))
	for _, b := range list {
		size += len(b)
	}
	if cap(to)-len(to) < size {
		to = append(make([]byte, 0, 2*(len(to)+size)), to...) // what comes after it has room, too
	}
	for _, n := range []uint32{1, 0, pgtype.ByteaOID, uint32(len(list)), 1} {
		to = binary.BigEndian.AppendUint32(to, n)
	}
	for _, b := range list {
		to = append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...)
	}
	return to, nil
}
