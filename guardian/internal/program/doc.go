// Package program is the compiled form of a policy, and its evaluator.
//
// Package compile makes a [Tool] for each tool of a stack. Package guardian judges calls by it, and
// has an [Evaluator] evaluate each [Node]. An Evaluator holds the memory of one judgement, so that
// judging allocates nothing: it is used again for the next one.
package program
