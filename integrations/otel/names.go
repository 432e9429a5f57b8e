package otel

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/helmkernel/helm/contracts"
)

// Names are written here and not taken from a package of conventions, which renames them. Those of
// HELM are stable; gen_ai, mcp, jsonrpc and http follow the conventions of OpenTelemetry.
const (
	eventDecision = "helm.decision"

	keyVerdict   = attribute.Key("helm.verdict")
	keyReason    = attribute.Key("helm.reason")
	keyRule      = attribute.Key("helm.rule")
	keyDecision  = attribute.Key("helm.decision.id")
	keyReceipt   = attribute.Key("helm.receipt.index")
	keyRepeat    = attribute.Key("helm.repeat")
	keyLate      = attribute.Key("helm.late")
	keyOutcome   = attribute.Key("helm.outcome")
	keyCode      = attribute.Key("helm.code")
	keyServer    = attribute.Key("helm.mcp.server")
	keyCalls     = attribute.Key("helm.calls")
	keyDenied    = attribute.Key("helm.denied")
	keyFirstByte = attribute.Key("helm.time_to_first_byte")
	keyHeld      = attribute.Key("helm.time_held")

	keyOperation    = attribute.Key("gen_ai.operation.name")
	keyTool         = attribute.Key("gen_ai.tool.name")
	keyConversation = attribute.Key("gen_ai.conversation.id")
	keyModel        = attribute.Key("gen_ai.request.model")
	keyTokensIn     = attribute.Key("gen_ai.usage.input_tokens")
	keyTokensOut    = attribute.Key("gen_ai.usage.output_tokens")
	keyError        = attribute.Key("error.type")

	keyMethod    = attribute.Key("mcp.method.name")
	keySession   = attribute.Key("mcp.session.id")
	keyProtocol  = attribute.Key("mcp.protocol.version")
	keyRequestID = attribute.Key("jsonrpc.request.id")

	keyHTTPMethod = attribute.Key("http.request.method")
	keyHTTPStatus = attribute.Key("http.response.status_code")
)

const (
	metricDecisions = "helm.decisions"
	metricRuns      = "gen_ai.execute_tool.duration"
	metricJudged    = "helm.judge.duration"
	metricOpen      = "helm.handoff.open"
	metricSettled   = "helm.handoff.settled"
	metricUnknown   = "helm.results.unknown"
	metricRefused   = "helm.requests.refused"
	metricDrifted   = "helm.mcp.drift"
)

const (
	executeTool = "execute_tool"
	callTool    = "tools/call"
	chat        = "chat"
	other       = "_other" // a tool that the policy does not declare
)

// A labelled is the set of labels of a measurement of a call.
type labelled struct {
	tool   string
	reason contracts.ReasonCode
	allow  bool
	run    bool // of the time of a run, not of a decision
}

// labels are the options of measurements, made once for each set. There are as many sets as tools
// that policies declare, times reasons; if there are more than mostLabels, further ones are made
// for each measurement.
type labels struct {
	made  sync.Map // labelled to metric.MeasurementOption in a slice
	count atomic.Int64
}

const mostLabels = 1 << 14

type measurement struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (l *labels) of(x labelled) *measurement {
	if m, ok := l.made.Load(x); ok {
		return m.(*measurement)
	}
	m := x.measurement()
	if l.count.Load() < mostLabels {
		if _, there := l.made.LoadOrStore(x, m); !there {
			l.count.Add(1)
		}
	}
	return m
}

func (x labelled) measurement() *measurement {
	list := []attribute.KeyValue{keyTool.String(x.tool)}
	switch {
	case !x.run:
		list = append(list, keyVerdict.String(contracts.Verdict(x.allow).String()), keyReason.String(string(x.reason)))
	case x.reason != contracts.ReasonAllow:
		list = append(list, keyError.String(string(x.reason)))
	}
	set := metric.WithAttributeSet(attribute.NewSet(list...))
	if x.run {
		return &measurement{record: []metric.RecordOption{set}}
	}
	return &measurement{add: []metric.AddOption{set}}
}
