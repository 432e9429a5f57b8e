package main

import (
	"encoding/hex"
	"io"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/crypto"
)

func keygen(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "make an Ed25519 key", Args: arguments(cobra.ExactArgs(1)),
		Long: "Make an Ed25519 key in a new file that only its owner may read, and print its id and its public key.\n" +
			"The file is not encrypted.",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := crypto.GenerateKey()
			if err != nil {
				return err
			}
			public, err := crypto.PublicOf(key)
			if err != nil {
				return err
			}
			if err := create(args[0], 0o600, func(w io.Writer) error { return crypto.WriteKey(w, key) }); err != nil {
				return err
			}
			id, text := crypto.KeyID(public).String(), hex.EncodeToString(public)
			return a.print("id      "+id+"\npublic  "+text+"\n", map[string]string{"id": id, "public": text})
		},
	}
}
