package redistier

import (
	"fmt"
	"testing"
)

func FuzzParseNotice(f *testing.F) {
	f.Add("6 7 kind buyer 3")
	f.Add("7 8 account abc 1")
	f.Add("7 x kind buyer 3")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseNotice(s)
		if !ok {
			return
		}
		again, ok := parseNotice(fmt.Sprint(n.Before, " ", n.Seq, " ", n))
		if !ok || again != n {
			t.Fatalf("%q became %+v, and that %+v", s, n, again)
		}
	})
}
