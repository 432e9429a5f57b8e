// Package helmtest tests a program's own parts of helm: its policies, and its store.
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
// Run it with -race: half of the contract is about what happens concurrently. It makes about a
// thousand appends, a quarter of them with -short, and more if they are quick.
package helmtest
