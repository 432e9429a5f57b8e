package helmtest

import (
	"context"
	"encoding/json"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// An Adapter connects [AdapterSuite] with a framework: its functions drive the framework's own
// loop, with a model that follows a script and tools that the suite wrote.
type Adapter struct {
	Name string // of the adapter, as the table names it

	// Kinds are the kinds of tool that the framework has, such as plain and streamed. Every attack
	// is made on a tool of each kind.
	Kinds []string

	// Ways are further ways by which the framework reaches a tool, such as a registry or a
	// sub-agent: the values of Turn.Way.
	Ways []string

	// Turn runs the framework's own loop under the adapter until the model has no more calls. ctx
	// is that of the host; it has the caller and the session of the calls (helm.With).
	Turn func(ctx context.Context, t Turn) Answer

	// Resume goes on with a turn that was interrupted: a is its Answer. It is nil if the framework
	// has no interrupts; the suite then presents approvals by helm.With, in another turn.
	Resume func(ctx context.Context, a Answer, r Reply) Answer

	// Lacks names the attacks that cannot be held against, or cannot be made, with the framework's
	// reason. The key is the name of the attack, or "attack/kind" for one kind of tool.
	Lacks map[string]string
}

// A Turn is one turn of an agent. If the framework has no place for a field that is set, Turn
// returns an Answer whose Err is [errors.ErrUnsupported], before any tool runs.
type Turn struct {
	Kernel *helm.Kernel
	Tools  []*ScriptedTool // those of the agent; the adapter wraps each
	Late   []*ScriptedTool // those that are added to the framework after the adapter's construction

	// Identity has the caller, the session and the approvals that the context carries, for a
	// framework that does not hand the host's context to its tools.
	Identity helm.Intent

	// Model is the script: the calls that the model proposes in each step. If a step has several,
	// the framework gets them in one answer of the model.
	Model [][]Call

	// Text is the model's last answer, after the script.
	Text string

	// Hook, if it is not nil, is called in a hook of the framework that is installed after the
	// adapter's: it gets the arguments of a call, as JSON, and returns the ones that the hook
	// leaves in their place.
	Hook func(args []byte) []byte

	// Alias has names that the model uses for tools, and the names of these tools.
	Alias map[string]string

	// Way is empty, or one of Adapter.Ways: the calls of the script reach the tools by this way.
	Way string

	// Repeat has the framework repeat calls that failed, if it does that at all.
	Repeat bool
}

// A Call is a call that the model proposes.
type Call struct {
	ID   string // as models name their calls
	Tool string
	Args []byte // exactly as the model wrote them; not always JSON
}

// An Answer is how a turn came out.
type Answer struct {
	// Shown are the results that the model was shown in this turn, in any order.
	Shown []Shown

	Text string // the last answer of the model

	// Err is the error with which the loop ended. A denial is none. An error that Is
	// errors.ErrUnsupported says that the framework cannot do what the turn asks for.
	Err error

	// Pending are the requests that the framework's interrupt, or the adapter in another way, hands
	// to the host. A turn that was interrupted has no Text.
	Pending []contracts.ApprovalRequest

	// State is the adapter's own, for Resume.
	State any
}

// Shown is the result of one call, as the model is shown it.
type Shown struct {
	Call string // the ID of the call

	// Text has the bytes that stand for the released output. If the framework passes on a value, it
	// is the canonical JSON of the value.
	Text string

	// Failed reports whether the framework tells the model that the call failed. It is always false
	// if the framework has no such mark.
	Failed bool
}

// A Reply is the answer to an interrupt.
type Reply struct {
	Call    string          // the ID of the call that was interrupted
	Payload json.RawMessage // what the host resumes with: {"approvals": […]}, or what an attacker makes

	Identity helm.Intent // that of the one who resumes, as in Turn

	// Args, if not nil, are put in place of the call's arguments. If the framework has no way to do
	// that, Resume returns errors.ErrUnsupported.
	Args []byte
}
