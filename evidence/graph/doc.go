// Package graph answers people's questions of a log: what led to this call, what came of it, how two receipts hang together. The answer is a
// set of entries, which is written as a picture or as data.
//
//	pack, report, err := evidence.OpenPack(ctx, f, size, evidence.Options{Trust: state})
//	… // and report.Success
//	g, err := graph.Read(ctx, pack)
//	…
//	receipt, err := g.Find("chat-1/4")
//	…
//	err = g.WriteDOT(ctx, os.Stdout, g.Ancestors(receipt, graph.Causes)) // | dot -Tsvg >why.svg
//
// [Read] takes a [Source]: a pack that was verified, or a proofgraph.Store of one's own. It checks the form of each entry, and how entries stand to
// those that they name. It verifies no signature: of a store that somebody else hands over, the graph is a drawing of a claim.
//
// # Edges
//
// An edge leads from an entry to an earlier one that it names by hash (docs/FORMATS.md section 2): its prev, the entry before it in its
// session, or one of its parents, the entries that it is said to come after. There are two ways to follow them:
//
//	Links   every edge. What leads to an entry is everything that it commits to: no entry of that could be changed without changing
//	        this one. Since each session is a chain, that is all that is earlier in its session, and more.
//	Causes  parents, the decision of a receipt, and prev where a call was running. What leads to an entry is which calls led to it,
//	        as far as the log says so.
//
// A receipt has its decision for its only cause. The decision of a call, or its denial, has its parents: what the caller named
// (helm.Intent.After), and the decision of the call from inside which it was made. The log names nothing twice, so a parent that is the
// entry before in the same session is prev alone. From this follows what Causes makes of the prev of a call:
//
//   - It is a decision: that call was still running, and most probably made this one, so it is a cause. So is, wrongly, a call that merely
//     ran at the same time in the same session.
//   - It is the end of a call: that is no cause. If the caller did name it, the log does not show that; Links has it.
//
// What was called inside a call is among the descendants of its decision, not among the ancestors of its receipt: whether the outcome is made
// of it, no log says. Nor does any say which of a session's earlier outputs a model had read when it called a tool. Who must not miss
// anything asks for Links, and for the descendants of the decisions in the answer.
//
// # Output
//
// Of an entry is written where it stands and what it says of its call: index, kind, session and seq, time, tool, verdict, outcome, reason,
// risk, each where that entry has it itself, and its hash in JSON. Never arguments, outputs or callers. Entries stand in log order, and of their
// edges those that lead to another entry of the set. The same set gives the same bytes.
//
// [Graph.WriteDOT] writes a digraph for Graphviz: later entries below earlier ones, the session as group, what ended in DENY red, causes as
// solid lines and the rest of the chains dotted. [Graph.WriteJSON] writes one object with one entry a line, broken here:
//
//	{"size":9,"entries":[
//	{"index":4,"kind":"receipt","session":"main","seq":1,"time":"2026-09-21T13:46:40.004Z","tool":"fs.read","verdict":"ALLOW","outcome":"EXECUTED",
//	 "reason":"ALLOW","hash":"9f…","edges":[{"to":3,"kind":"prev","cause":true}]},
//	…
//	]}
//
// where size is that of the log. Names come from whoever calls tools. Both outputs are ASCII: whatever else is in a name, and what means something
// to Graphviz, HTML or a terminal, is escaped.
//
// # Cost
//
// A graph holds no entry: some 55 bytes for each and 4 more a parent, and at most 256 a session. Questions are answered from these, by one pass
// over them without recursion, however deep a chain is; they take 1/8 byte an entry, a path 4 bytes an entry between its ends while it is
// looked for. Writing reads the entries of the set again, a moment each, and finds out if they are not what they were.
package graph
