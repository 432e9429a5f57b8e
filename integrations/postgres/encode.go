package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// keptBuffer is up to what size a connection keeps a buffer of a call.
const keptBuffer = 1 << 20

// put calls the function put. It keeps two buffers for the next call: that of the arguments, and
// that of the message. Pgx makes new ones each time and lets them grow: that was half of the
// garbage of a kernel.
func (l *link) put(ctx context.Context, args []any) (at int64, err error) {
	statement, err := l.Prepare(ctx, "put", statements["put"]) // it is prepared: this looks it up
	if err != nil {
		return 0, err
	}
	values, buffer := make([][]byte, len(args)), l.buffer[:0]
	for i, arg := range args {
		to, err := l.TypeMap().Encode(statement.ParamOIDs[i], pgtype.BinaryFormatCode, arg, buffer)
		if err != nil {
			return 0, err
		}
		if to != nil { // else it is null
			values[i], buffer = to[len(buffer):], to
		}
	}
	if cap(buffer) <= keptBuffer {
		l.buffer = buffer
	}
	message := slices.Grow(l.message[:0], len(buffer)+4*len(args)+besides)
	if cap(message) <= keptBuffer {
		l.message = message
	}
	l.PgConn().Frontend().Send(room{into: message})
	formats := []int16{pgtype.BinaryFormatCode} // of all
	result := l.PgConn().ExecStatement(ctx, statement, values, formats, formats).Read()
	if result.Err != nil {
		return 0, result.Err
	}
	if len(result.Rows) != 1 {
		return 0, errors.New("the function put has returned no row")
	}
	err = l.TypeMap().Scan(pgtype.Int8OID, pgtype.BinaryFormatCode, result.Rows[0][0], &at)
	return at, err
}

// besides is enough for what a message has besides the arguments and their lengths. If it were not,
// the buffer would grow.
const besides = 512

// A room is no message: nothing is sent of it. It has the next one encoded in a buffer that is long
// enough. The buffer of pgx grows with each argument, and is thrown away when the message is sent.
type room struct {
	pgproto3.FrontendMessage
	into []byte
}

func (r room) Encode(dst []byte) ([]byte, error) { return append(r.into, dst...), nil }

// A listCodec encodes bytea[] from lists of bytes. The codec of pgx, which does the rest, lets its
// buffer grow with each element.
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
	to = slices.Grow(to, size)
	for _, n := range []uint32{1, 0, pgtype.ByteaOID, uint32(len(list)), 1} {
		to = binary.BigEndian.AppendUint32(to, n)
	}
	for _, b := range list {
		to = append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...)
	}
	return to, nil
}
