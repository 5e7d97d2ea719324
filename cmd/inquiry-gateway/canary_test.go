package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// The canary says who gets what they must not have, and what could not be compared. It shows no key
// and nothing of a record.
func TestCanary(t *testing.T) {
	t.Parallel()
	const one, two = legacy.BuyerTypical, legacy.BuyerOther
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	mixUp := func(system http.Handler) http.Handler { // takes one customer for another
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "customer="+two, "customer="+one, 1)
			system.ServeHTTP(w, r)
		})
	}
	// A shared cache in front that does not heed Vary, or an open door.
	cached := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `W/"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"title":"secret"}],"meta":{},"errors":[]}`))
	}
	for name, tt := range map[string]struct {
		s     setup
		front http.Handler // in place of the gateway
		keys  []string     // files; nil: of two buyers
		code  int
		says  []string
	}{
		"all is well": {code: 0, says: []string{"1 pair of lists compared"}},
		"mixed up": {s: setup{upstream: []string{owner, ""}, backend: mixUp}, code: exitFailed,
			says: []string{"records are in the lists of both", "gets 304 for the ETag", "accounts may read each other's lists"}},
		"shared cache": {front: http.HandlerFunc(cached), code: exitFailed, says: []string{"1 records are in the lists", "a request without a key gets status 200", "304 for the ETag"}},
		"no ETag": {front: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":[{"title":%q}]}`, r.Header.Get("Authorization"))
		}), code: exitFailed, says: []string{"inconclusive: the list of", "comes without an ETag"}},
		"limited after the lists": {front: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Set("ETag", `"x"`); r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			fmt.Fprintf(w, `{"data":[{"title":%q}]}`, r.Header.Get("Authorization"))
		}), code: exitFailed, says: []string{"inconclusive:", "gets status 429"}},
		"nothing there": {front: http.NotFoundHandler(), code: exitFailed, says: []string{"inconclusive: the list of", "status 404", "0 pairs", "not everything could be compared"}},
		"a revoked key": {keys: []string{"buyer.key", "revoked.key"}, code: exitFailed, says: []string{"status 401"}},
		"one key":       {keys: []string{"buyer.key"}, code: exitWrongUse, says: []string{"two or more accounts"}},
		"no key":        {keys: []string{"buyer.key", "keys.yaml"}, code: exitFailed, says: []string{"one API key and nothing else"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.s.legacy.Inquiries = 300
			p := start(t, tt.s)
			for id, key := range p.keys {
				p.write(id+".key", key+"\n")
			}
			p.write("revoked.key", "a-key-that-nobody-has-been-given\n")
			url := p.app.URL()
			if tt.front != nil {
				front := httptest.NewServer(tt.front)
				t.Cleanup(front.Close)
				url = front.URL
			}
			if tt.keys == nil {
				tt.keys = []string{"buyer.key", "other-buyer.key"}
			}
			args := []string{"canary", "--url", url}
			for _, file := range tt.keys {
				args = append(args, "--key-file", p.dir+"/"+file)
			}
			out, errOut, code := command(t, args...)
			for _, want := range tt.says {
				if code != tt.code || !strings.Contains(out+errOut, want) {
					t.Errorf("exit code %d, want %d; no %q in %s%s", code, tt.code, want, out, errOut)
				}
			}
			for id, key := range p.keys {
				if strings.Contains(out+errOut, key) || strings.Contains(out+errOut, "secret") {
					t.Errorf("the key %s or a record is shown", id)
				}
			}
			if code == exitWrongUse || tt.keys[len(tt.keys)-1] == "keys.yaml" {
				return
			}
			var report struct{ Failures, Inconclusive []string }
			if out, _, _ = command(t, append(args, "--json")...); json.Unmarshal([]byte(out), &report) != nil || (code == 0) != (len(report.Failures)+len(report.Inconclusive) == 0) {
				t.Errorf("in JSON: %s", out)
			}
		})
	}
}
