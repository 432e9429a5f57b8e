package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

const chat = "chat-1" // the conversation's session

// converse makes the calls of one session, which come to each replica: what one has recorded in it
// holds in the others.
func converse(ctx context.Context, s *story) error {
	stranger, err := s.must(ctx, contracts.ReasonMissingRequirement, pay(chat, "ada", 40), "")
	if err != nil {
		return err
	}
	looked, err := s.must(ctx, contracts.ReasonAllow, look(chat, "ada"), "")
	if err != nil {
		return err
	}
	const key = "order-1"
	paid, err := s.must(ctx, contracts.ReasonAllow, pay(chat, "ada", 40), key)
	if err != nil {
		return err
	}
	repeat, err := s.must(ctx, contracts.ReasonAllow, pay(chat, "ada", 40), key)
	if err != nil {
		return err
	}
	if string(repeat.Output) != string(paid.Output) {
		return errors.New("the repeat of a key has another output")
	}
	fmt.Fprintf(s.out, "  the last repeats the key %s: nothing ran, and its output is %s\n", key, repeat.Output)
	return errors.Join(different(stranger, looked, paid), different(looked, paid, repeat), s.bank.paid("ada", 1))
}
