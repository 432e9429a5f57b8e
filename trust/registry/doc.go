// Package registry knows which key may sign what, and when.
//
// A [State] is a value: canonical JSON with a digest, which the genesis entry of a log names and
// auditors hold. A key has one role. It is valid for the entry at an index iff (since = 0 or since
// < index) and (it is not revoked or index <= revoked), so entries that were signed before a
// revocation remain verifiable. Keys are Ed25519 points of the prime-order subgroup, canonically
// encoded.
//
//	state, err := registry.ParseState(trustJSON)         // the bytes that an auditor holds
//	key, ok := state.Key(keyID, registry.Kernel, index)  // may this key sign the entry at index?
//
// A State never changes. The trust entries of a log are events, each of which leads to the next
// state, [State.Apply]: the state at an index is the fold of the initial state and the events
// before it, in order. An event is for one log (its origin) and one state (its version is the next
// one), so it can be neither replayed nor moved. Its type determines who must sign it:
//
//	key         adds a key that is no root, with proof            root threshold
//	revoke      ends a key that is no root, for ever              root threshold
//	root        replaces roots and their threshold, with proofs   old and new root threshold
//	undelegate  ends a grant                                      root threshold or the delegator
//	freeze      denies every call                                 one root or freezer
//	unfreeze    ends the freeze                                   root threshold
//
// A threshold of 0 means that nothing can ever change. [OpenApproval], [OpenAttestation],
// [OpenDelegation] and [OpenBundle] open what callers present, with the keys that are not revoked.
//
// The format is described in docs/FORMATS.md section 6.
package registry
