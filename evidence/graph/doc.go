// Package graph answers questions about a log: which calls led to this one, what followed from it,
// how two receipts are connected. The answer is a set of entries, written as a drawing or as data.
//
//	pack, report, err := evidence.OpenPack(ctx, f, size, evidence.Options{Trust: state})
//	… // and report.Success
//	g, err := graph.Read(ctx, pack)
//	…
//	receipt, err := g.Find("chat-1/4")
//	…
//	err = g.WriteDOT(ctx, os.Stdout, g.Ancestors(receipt, graph.Causes)) // | dot -Tsvg >why.svg
//
// [Read] takes a [Source]: a pack that was verified, or a proofgraph.Store of your own. It checks
// the form of each entry, and that the entries it names exist and fit. It verifies no signature:
// the graph of a store that comes from another party is a drawing of a claim.
//
// # Edges
//
// An edge leads from an entry to an earlier one that it names by hash (docs/FORMATS.md section 2):
// its prev, which is the entry before it in its session, or one of its parents, which are the
// entries that it is said to come after. A question follows edges in one of two ways:
//
//	Links   every edge. The ancestors of an entry are everything that it commits to: none of them
//	        could be changed without changing this entry. Since each session is a chain, they
//	        include all that is earlier in its session.
//	Causes  parents, the decision of a receipt, prev if a call was running. The ancestors of an
//	        entry are the calls that led to it, as far as the log says so.
//
// The only cause of a receipt is its decision. The causes of a decision, or of a denial, are its
// parents: the entries that the caller named (helm.Intent.After), and the decision of the call from
// inside which it was made. The log names nothing twice, so a parent that is also the previous
// entry of the same session is recorded as prev alone. Therefore Causes treats the prev of a call
// like this:
//
//   - If prev is a decision, that call was still running and most probably made this one, so it is
//     a cause. A call that merely ran at the same time in the same session is counted too, wrongly.
//   - If prev is the end of a call, it is not a cause. If the caller did name it, the log does not
//     show that; Links includes it.
//
// Calls made inside a call are among the descendants of its decision, not among the ancestors of
// its receipt: no log says whether the outcome was made from them. Nor does a log say which of a
// session's earlier outputs a model had read when it called a tool. Those who must not miss
// anything follow Links, and add the descendants of the decisions in the answer.
//
// # Output
//
// An entry is written as its place and what it says about its call: index, kind, session and seq,
// time, tool, verdict, outcome, reason and risk, each if that entry itself has it, and its hash in
// JSON. Arguments, outputs and callers are never written. Entries are in log order, with those of
// their edges that lead to another entry of the set. The same set always has the same bytes.
//
// If only the stub of an entry is left, it is written as far as the stub has it, and marked: in
// JSON by "stub":true after the kind. Its edges are those of the entry.
//
// [Graph.WriteDOT] writes a digraph for Graphviz: later entries below earlier ones, the session as
// group, entries that ended in DENY in red, stubs dashed, causes as solid lines and the rest of the
// chains dotted. [Graph.WriteJSON] writes one object with one entry a line, broken here:
//
//	{"size":9,"entries":[
//	{"index":4,"kind":"receipt","session":"main","seq":1,"time":"2026-09-21T13:46:40.004Z",
//	 "tool":"fs.read","verdict":"ALLOW","outcome":"EXECUTED","reason":"ALLOW","hash":"9f…",
//	 "edges":[{"to":3,"kind":"prev","cause":true}]},
//	…
//	]}
//
// size is the number of entries in the log. Names come from the callers of tools. Both outputs are
// ASCII: anything else in a name, and anything that has a meaning to Graphviz, HTML or a terminal,
// is escaped.
//
// # Cost
//
// A graph holds no entries. It takes about 55 bytes an entry, 4 more a parent, and at most 256 a
// session. A question is answered by one pass over these, without recursion, however deep a chain
// is. It takes 1/8 byte an entry; Path takes 4 more for each entry between its ends while it
// searches. Writing reads the entries of the set again, a moment each, and fails if they have
// changed.
package graph
