// Command trace prints the functions of this module that one allowed call enters, a line each.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/check/recorder"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const mail = `{"helm": "policy/v1", "layer": "P1", "bundle": {"name": "mail", "version": 1},
	"tools": {"mail.send": {
		"effect": "write",
		"input": {"type": "object", "required": ["to", "text"],
			"properties": {"to": {"type": "string"}, "text": {"type": "string"}}},
		"scope": [{"arg": "/to", "email": ["corp.example"]}]}},
	"rules": [{"id": "staff", "allow": "mail.send", "when": {"caller": "roles", "has": "staff"}}]}`

func main() {
	document, err := policy.Parse("mail.json", []byte(mail))
	if err != nil {
		log.Fatal(err)
	}
	compiled, err := guardian.Compile(document)
	if err != nil {
		log.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	k, err := helm.New(helm.Options{Policy: compiled, Key: key, Store: proofgraph.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	send := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"sent"`), nil
	})
	var d helm.Decision
	call := func() {
		d, _ = k.Guard(context.Background(), helm.Intent{
			Tool:    "mail.send",
			Args:    json.RawMessage(`{"to":"ada@corp.example","text":"hi"}`),
			Caller:  helm.Caller{ID: "bob", Roles: []string{"staff"}},
			Session: "chat-1",
			Driver:  send,
		})
	}
	call() // the first call of a session reads more
	entered := recorder.Record(call)
	if err := d.Err(); err != nil {
		log.Fatal(err)
	}
	for _, e := range entered {
		fmt.Println(e[0], e[1])
	}
}
