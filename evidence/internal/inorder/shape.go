package inorder

import "context"

// A Shape is how entries are opened ahead of the one goroutine that folds them in order.
type Shape struct {
	Workers int // goroutines, the one that folds them included
	Batch   int // bytes of entries that one of them takes at a time
}

type shapeKey struct{}

// With returns a context under which a verification has that shape. Tests use it to compare shapes:
// the answer must not depend on the shape.
func With(ctx context.Context, s Shape) context.Context {
	return context.WithValue(ctx, shapeKey{}, s)
}

// Of returns the shape of ctx, or s if it has none.
func Of(ctx context.Context, s Shape) Shape {
	if own, ok := ctx.Value(shapeKey{}).(Shape); ok {
		return own
	}
	return s
}
