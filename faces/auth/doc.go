// Package auth says who makes an HTTP request of a face, in which session, and what they may do.
//
//	a, err := auth.New(auth.Options{Tokens: tokens, Hosts: []string{"helm.example"}})
//	server := auth.Server(a.Handler(mux))
//
// A request that is not let in is answered here, and reaches nothing else: one for another host,
// from a page in a browser, with a header twice, without a good token, over a limit. Of one that is
// let in, [From] returns who asks, and [Auth.Session] the name of their session in the log.
//
// A caller is never taken from a header or a body: the file of tokens says who a token stands for.
// Without tokens all are anonymous, and then [Listen] takes loopback alone, where only those can
// ask who can log in to the machine.
package auth
