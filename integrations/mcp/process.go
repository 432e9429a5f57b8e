package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// environment is what a server's process gets of ours, besides what Server.Env names.
var environment = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// A process is a line over the standard input and output of a command.
type process struct {
	*calls
	command *exec.Cmd
	in, out *os.File // our ends
	write   chan []byte
	replies chan []byte
	done    chan struct{} // the line has ended
	read    chan struct{} // all that it said
	exited  chan struct{} // the process, and its group
	once    sync.Once
}

// start starts the command of a server.
func start(s Server, changed func()) (*process, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return nil, err
	}
	p := &process{
		calls: newCalls(changed), command: exec.Command(s.Command[0], s.Command[1:]...), in: in, out: out,
		write: make(chan []byte), replies: make(chan []byte, 16), done: make(chan struct{}),
		read: make(chan struct{}), exited: make(chan struct{}),
	}
	p.command.Stdin, p.command.Stdout, p.command.Env = theirIn, theirOut, []string{}
	if s.Stderr != nil {
		p.command.Stderr = s.Stderr
	}
	for _, names := range [][]string{environment, s.Env} {
		for _, name := range names {
			if value, ok := os.LookupEnv(name); ok {
				p.command.Env = append(p.command.Env, name+"="+value)
			}
		}
	}
	group(p.command)
	err = p.command.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go p.wait()
	go p.writer()
	go p.reader()
	return p, nil
}

// wait waits for the end of the process, and ends what it started. What it said
// before counts.
func (p *process) wait() {
	p.command.Process.Wait()
	killGroup(p.command.Process.Pid)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.read:
	case <-t.C: // a stranger holds the pipe
	}
	p.end()
	p.out.Close()
	close(p.exited)
}

func (p *process) end() {
	p.once.Do(func() {
		close(p.done)
		p.in.Close()
	})
}

func (p *process) ended() <-chan struct{} { return p.done }

// grace is how long a process may take to end after its standard input did.
const grace = time.Second

// close ends the process, and returns when it is gone.
func (p *process) close() {
	p.end()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		killGroup(p.command.Process.Pid)
		p.command.Process.Kill()
		<-p.exited
	}
}

// writer writes one message after the other. After it has one, nobody knows
// whether the server has it.
func (p *process) writer() {
	for {
		var m []byte
		select {
		case m = <-p.write:
		case m = <-p.replies:
		case <-p.done:
			return
		}
		if _, err := p.in.Write(append(m, '\n')); err != nil {
			p.end()
			return
		}
	}
}

// reader reads until the line ends. What is no JSON-RPC is dropped: some servers print.
func (p *process) reader() {
	defer p.close()
	defer close(p.read)
	r := bufio.NewReaderSize(p.out, 64<<10)
	var message []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(message)+len(part) > maxMessage {
			return
		}
		message = append(message, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		if m := bytes.TrimSpace(message); len(m) > 0 {
			reply, err := p.take(m)
			if err != nil {
				return
			}
			if reply != nil {
				select {
				case p.replies <- reply:
				default: // it asks faster than it reads
				}
			}
		}
		if message = message[:0]; cap(message) > 1<<20 {
			message = nil
		}
	}
}

func (p *process) send(ctx context.Context, m []byte) error {
	select {
	case p.write <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return errEnded
	}
}

func (p *process) notify(ctx context.Context, method string, params []byte) error {
	m, err := request(0, method, params)
	if err != nil {
		return err
	}
	return p.send(ctx, m)
}

func (p *process) call(ctx context.Context, method string, params []byte, how progress) (json.RawMessage, error) {
	id, w, m, err := p.begin(method, params, how)
	if err != nil {
		return nil, err
	}
	defer p.forget(id)
	if err := p.send(ctx, m); err != nil {
		return nil, err
	}
	select {
	case r := <-w.answer:
		return result(r)
	case <-p.done:
		select {
		case r := <-w.answer: // the last that it said
			return result(r)
		default:
			return nil, errEnded
		}
	case <-ctx.Done():
		p.cancel(id)
		return nil, ctx.Err()
	}
}

// cancel tells the server that nobody waits any more, if it reads.
func (p *process) cancel(id int64) {
	if m, err := request(0, "notifications/cancelled", canceled(id)); err == nil {
		select {
		case p.replies <- m:
		default:
		}
	}
}

func canceled(id int64) []byte {
	return []byte(`{"requestId":` + strconv.FormatInt(id, 10) + `}`)
}
