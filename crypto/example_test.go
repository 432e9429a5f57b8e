package crypto_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

func ExampleTree_ParseArgs() {
	var tree crypto.Tree
	canonical, err := tree.ParseArgs(nil, []byte(`{"path": "a\/b.txt", "lines": [1.0, 2e1], "follow": false}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", canonical)
	fmt.Println(tree.Root().Get("path").Text(), tree.Root().Get("lines").Len(), tree.Root().Get("mode").Exists())

	_, err = tree.ParseArgs(nil, []byte(`{"path": "/tmp", "Path": "/etc"}`))
	var syntax *crypto.SyntaxError
	fmt.Println(errors.As(err, &syntax), err)
	// Output:
	// {"follow":false,"lines":[1,20],"path":"a/b.txt"}
	// a/b.txt 2 false
	// true crypto: json: key that differs from another only by letter case at byte 17
}

func ExampleSign() {
	key, err := crypto.LoadKey(strings.NewReader(`-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
`))
	if err != nil {
		log.Fatal(err)
	}
	pub, err := crypto.PublicOf(key)
	if err != nil {
		log.Fatal(err)
	}
	pae := crypto.AppendPAE(nil, "text/plain", []byte("hello"))
	sig, err := crypto.Sign(key, pae)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key)
	fmt.Println(crypto.Verify(pub, pae, sig), crypto.Verify(pub, []byte("hello"), sig))
	fmt.Printf("%s\n", crypto.AppendEnvelope(nil, "text/plain", []byte("hello"), crypto.KeyID(pub), sig)[:60])
	// Output:
	// private key 21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9
	// true false
	// {"payload":"aGVsbG8=","payloadType":"text/plain","signatures
}
