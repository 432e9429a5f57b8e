package eino

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm/executor"
)

// A runner runs a tool with the judged arguments.
type runner = func(ctx context.Context, args string) (executor.Result, error)

type invokable struct {
	g     *governed
	inner tool.InvokableTool
}

// InvokableRun has the call judged, and runs the tool if it is permitted.
func (t invokable) InvokableRun(ctx context.Context, args string, options ...tool.Option) (string, error) {
	c, args := t.g.call(ctx, args, func(ctx context.Context, args string) (executor.Result, error) {
		return textResult(t.inner.InvokableRun(ctx, args, options...))
	})
	if c == nil {
		return t.inner.InvokableRun(ctx, args, options...)
	}
	return c.text(ctx, args)
}

type streamable struct {
	g     *governed
	inner tool.StreamableTool
}

// StreamableRun has the call judged, runs the tool if it is permitted, and returns its stream in
// one piece.
func (t streamable) StreamableRun(
	ctx context.Context, args string, options ...tool.Option,
) (*schema.StreamReader[string], error) {
	c, args := t.g.call(ctx, args, func(ctx context.Context, args string) (executor.Result, error) {
		return drainText(ctx, func() (*schema.StreamReader[string], error) {
			return t.inner.StreamableRun(ctx, args, options...)
		})
	})
	if c == nil {
		return t.inner.StreamableRun(ctx, args, options...)
	}
	return onePiece(c.text(ctx, args))
}

type enhancedInvokable struct {
	g     *governed
	inner tool.EnhancedInvokableTool
}

// InvokableRun has the call judged, and runs the tool if it is permitted.
func (t enhancedInvokable) InvokableRun(
	ctx context.Context, argument *schema.ToolArgument, options ...tool.Option,
) (*schema.ToolResult, error) {
	c, args := t.g.call(ctx, textOf(argument), func(ctx context.Context, args string) (executor.Result, error) {
		return partsResult(t.inner.InvokableRun(ctx, &schema.ToolArgument{Text: args}, options...))
	})
	if c == nil {
		return t.inner.InvokableRun(ctx, &schema.ToolArgument{Text: args}, options...)
	}
	return c.parts(ctx, args)
}

type enhancedStreamable struct {
	g     *governed
	inner tool.EnhancedStreamableTool
}

// StreamableRun has the call judged, runs the tool if it is permitted, and returns its stream in
// one piece.
func (t enhancedStreamable) StreamableRun(
	ctx context.Context, argument *schema.ToolArgument, options ...tool.Option,
) (*schema.StreamReader[*schema.ToolResult], error) {
	c, args := t.g.call(ctx, textOf(argument), func(ctx context.Context, args string) (executor.Result, error) {
		return drainParts(ctx, func() (*schema.StreamReader[*schema.ToolResult], error) {
			return t.inner.StreamableRun(ctx, &schema.ToolArgument{Text: args}, options...)
		})
	})
	if c == nil {
		return t.inner.StreamableRun(ctx, &schema.ToolArgument{Text: args}, options...)
	}
	return onePiece(c.parts(ctx, args))
}

func textOf(argument *schema.ToolArgument) string {
	if argument == nil {
		return ""
	}
	return argument.Text
}

func onePiece[T any](x T, err error) (*schema.StreamReader[T], error) {
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]T{x}), nil
}

// textResult returns the result of a plain tool. No text is text, and not the JSON null.
func textResult(text string, err error) (executor.Result, error) {
	return executor.Result{Output: []byte(text), Raw: text == ""}, err
}

var (
	errNoResult = errors.New("eino: the tool returned neither a result nor an error")
	errParts    = errors.New("eino: the tool returned a result that cannot be shown")
	errTooLong  = errors.New("eino: the stream is longer than any policy allows")
)

// partsResult returns the result of an enhanced tool. One of which the framework could make no
// message would end the turn after the receipt, so it is an error of the tool.
func partsResult(result *schema.ToolResult, err error) (executor.Result, error) {
	if err != nil {
		return executor.Result{}, err
	}
	if result == nil {
		return executor.Result{}, errNoResult
	}
	if _, err := result.ToMessageInputParts(); err != nil {
		return executor.Result{}, errParts
	}
	b, err := json.Marshal(result)
	if err != nil {
		return executor.Result{}, errParts
	}
	return executor.Result{Output: b}, nil
}

// shown returns the result that released output is of.
func shown(output []byte) (*schema.ToolResult, bool) {
	d := json.NewDecoder(bytes.NewReader(output))
	d.UseNumber()
	result := new(schema.ToolResult)
	if d.Decode(result) != nil {
		return nil, false
	}
	if _, err := result.ToMessageInputParts(); err != nil {
		return nil, false
	}
	return result, true
}

// maxOutput is the longest output that a policy can allow a tool.
const maxOutput = 16 << 20

func drainText(ctx context.Context, open func() (*schema.StreamReader[string], error)) (executor.Result, error) {
	var b bytes.Buffer
	err := drain(ctx, open, func(chunk string) (int, error) { return b.WriteString(chunk) })
	if err == errTooLong {
		return executor.Result{Output: b.Bytes(), Raw: true}, nil // the limit is the reason
	}
	return textResult(b.String(), err)
}

func drainParts(
	ctx context.Context, open func() (*schema.StreamReader[*schema.ToolResult], error),
) (executor.Result, error) {
	var chunks []*schema.ToolResult
	err := drain(ctx, open, func(chunk *schema.ToolResult) (int, error) {
		chunks = append(chunks, chunk)
		b, err := json.Marshal(chunk)
		return len(b), err
	})
	if err == errTooLong {
		return executor.Result{Output: make([]byte, maxOutput+1), Raw: true}, nil // the limit is the reason
	}
	if err != nil {
		return executor.Result{}, err
	}
	return partsResult(schema.ConcatToolResults(chunks))
}

// drain reads a stream to its end. One that ends after the context may have been cut short: a tool
// closes its stream when its context ends.
func drain[T any](
	ctx context.Context, open func() (*schema.StreamReader[T], error), keep func(T) (size int, err error),
) error {
	stream, err := open()
	if err != nil {
		return err
	}
	if stream == nil {
		return errNoResult
	}
	defer stream.Close()
	total := 0
	for {
		chunk, err := stream.Recv()
		if err == io.EOF {
			return ctx.Err()
		}
		if _, ended := schema.GetSourceName(err); ended && err != nil {
			continue // one of several streams
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		n, err := keep(chunk)
		if err != nil {
			return err
		}
		if total += n; total > maxOutput {
			return errTooLong
		}
	}
}
