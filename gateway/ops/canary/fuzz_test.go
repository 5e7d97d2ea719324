package canary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzAnswer reads whatever bytes a gateway may send. It never panics, says
// something of every body that is not JSON, and repeats nothing of what it read.
func FuzzAnswer(f *testing.F) {
	good := fmt.Sprintf(`{"data":[`+buyerRecord+`],"meta":{},"errors":[]}`, "t")
	f.Add(200, []byte(good), "3", "inquiry-gateway; hit; ttl=4", "")
	f.Add(200, packed([]byte(good)), "0", "inquiry-gateway; fwd=miss; stored", "gzip")
	f.Add(401, []byte(refused(401, "missing_api_key", "").body), "", "", "")
	f.Add(304, []byte{}, "7", "inquiry-gateway; hit; ttl=-3; detail=stale-error", "")
	f.Add(200, []byte(strings.Replace(good, `"r"`, `"r","SECRET-OF-A-RECORD":{"x":[`, 1)), "-1", "x", "br")
	f.Fuzz(func(t *testing.T, code int, body []byte, age, status, encoding string) {
		s := newStand(t, nil)
		r := s.newRound(&s.opts.Kinds[0], caller{})
		a := &answer{question: question{list: "buyer", gzip: true}, code: code, body: body, sent: time.Unix(0, 0), received: time.Unix(1, 0), header: http.Header{
			"Age": {age}, "Cache-Status": {status}, "Content-Encoding": {encoding}, "Etag": {`W/"x"`},
		}}
		switch {
		case code != http.StatusOK && code != http.StatusNotModified:
			r.refusal(a)
		case r.headers(r.seen[0], a) && r.body(r.seen[0], a):
			r.age(r.seen[0], a)
		}
		for c := range checkCount {
			for _, reason := range r.tally[c].reasons {
				if len(reason) > 200 || !utf8.ValidString(reason) || strings.Contains(reason, "SECRET") {
					t.Errorf("said %q", reason)
				}
			}
		}
		in := inspector{}
		if in.list(body, "buyer"); len(in.problems) == 0 && !json.Valid(body) {
			t.Errorf("%q passes for a list", body)
		}
	})
}
