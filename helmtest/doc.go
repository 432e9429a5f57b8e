// Package helmtest tests a program's own parts of helm: its policies, its store, and its adapter to
// an agent framework.
//
// [Policy] runs files of cases. [New] makes a kernel for cases that are easier to write in Go:
//
//	func TestRefunds(t *testing.T) {
//		p, err := policy.Load("testdata/shop.yaml")
//		require.NoError(t, err)
//		w := helmtest.New(t, p).As(helm.Caller{ID: "ann", Roles: []string{"clerk"}})
//		w.Call("refund", `{"amount": 50}`).Allow().By("P1:shop:small").Ran(1)
//		w.Call("refund", `{"amount": 51}`).Deny(contracts.ReasonNoPolicyDefined).Ran(0)
//	}
//
// [Store] tests a store. This is the test of one that keeps its log in a directory:
//
//	func TestContract(t *testing.T) {
//		helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
//			dir := t.TempDir()
//			return func() proofgraph.Store {
//				s, err := filestore.Open(dir, filestore.Options{})
//				require.NoError(t, err)
//				return s
//			}
//		})
//	}
//
// In place of the directory, a store over a database makes a schema and one over objects a prefix,
// which t.Cleanup drops. A store in memory lasts as long as the test, so its open returns the same
// store each time:
//
//	m := proofgraph.NewMemory()
//	return func() proofgraph.Store { return m }
//
// [Shared] tests a store that several logs write to, in the same way.
//
// Run it with -race: half of the contract is about what happens concurrently. It makes about a
// thousand appends, a quarter of them with -short, and more if they are quick.
//
// [AdapterSuite] tests an adapter: it drives the framework's own loop with a scripted model, and
// counts what tools do where the kernel does not see it. The package examples/adapter has a whole
// test of this kind:
//
//	func TestAdapterSuite(t *testing.T) {
//		helmtest.AdapterSuite(t, helmtest.Adapter{
//			Name:  "the framework of one page",
//			Kinds: []string{"plain"},
//			Turn:  turn,
//			Lacks: map[string]string{
//				"02-changed":  "it has no hooks",
//				"03-defaults": "it has no hooks",
//				"07-alias":    "it has no aliases",
//				"08-streams":  "it has no streams",
//				"15-ways":     "its loop alone calls tools",
//				"18-late":     "an agent has the tools that it was made with",
//			},
//		})
//	}
package helmtest
