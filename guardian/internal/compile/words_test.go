package compile

import "testing"

func TestNear(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"exprires", "expires"}, {"expire", "expires"}, {"exipres", "expires"},
		{"Expires", "expires"}, {"expirez", "expires"}} {
		if !near(c[0], c[1]) {
			t.Errorf("%s is not near %s", c[0], c[1])
		}
	}
	for _, c := range [][2]string{{"", "ab"}, {"eq", "ne"}, {"limits", "lists"}, {"expires", "expires2x"}} {
		if near(c[0], c[1]) {
			t.Errorf("%s is near %s", c[0], c[1])
		}
	}
}
