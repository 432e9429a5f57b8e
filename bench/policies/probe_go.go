package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net"
)

var goProbes = map[string]string{
	"limit":    `a.Amount > 1000`,
	"fraction": `a.Exact > 999.5`,
	"network":  `private.Contains(net.ParseIP(a.Addr))`,
	"unknown":  `exceeds(a.Amount, 1000)`,
	"misspelt": `a.Amuont > 1000`,
}

// payment is declared twice: here, and for the rules that the compiler would refuse.
type payment struct {
	Amount int
	Exact  float64 // the amount, if the limit is no whole number
	Addr   string
}

const paymentSource = `package bank
var a struct { Amount int; Exact float64; Addr string }
var deny bool = %s`

var private = net.IPNet{IP: net.IPv4(10, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}

// goRules are the goProbes that compile. Hosts that write so few lines do not look at the result of
// net.ParseIP for a text that is no address.
var goRules = map[string]func(a *payment) bool{
	"limit":    func(a *payment) bool { return a.Amount > 1000 },
	"fraction": func(a *payment) bool { return a.Exact > 999.5 },
	"network":  func(a *payment) bool { return private.Contains(net.ParseIP(a.Addr)) },
}

func goProber(rule string, _ bool) (func([]byte) answer, error) {
	denies := goRules[rule]
	if denies == nil {
		return nil, refusal(rule)
	}
	return func(args []byte) answer {
		var a payment
		err := json.Unmarshal(args, &a)
		if rule == "fraction" && err == nil {
			err = json.Unmarshal(args, &struct{ Amount *float64 }{&a.Exact})
		}
		if err != nil {
			return answer{unread: true, err: err}
		}
		return answer{allow: !denies(&a) && callers[0].has("clerk")}
	}, nil
}

// refusal is the compiler's error for a rule.
func refusal(rule string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "bank.go", fmt.Sprintf(paymentSource, goProbes[rule]), 0)
	if err != nil {
		return err
	}
	if _, err := new(types.Config).Check("bank", set, []*ast.File{file}, nil); err != nil {
		return err
	}
	return fmt.Errorf("%s compiles, and is not among the rules that do", rule)
}
