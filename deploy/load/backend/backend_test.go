package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestListsHaveTheLengthAndTheBuyerAskedFor(t *testing.T) {
	l := newLists(1000, 0)
	for _, state := range []string{"", "N", "A", "C"} {
		for _, n := range []int{0, 20, 200} {
			body, ok := l.body(n, `a "buyer"`, state)
			if !ok {
				t.Fatalf("no list of %d in state %q", n, state)
			}
			var reply struct {
				Result struct {
					Items []struct {
						Customer struct{ ID string }
						State    string
					}
				}
			}
			if err := json.Unmarshal(body, &reply); err != nil {
				t.Fatal(err)
			}
			if len(reply.Result.Items) != n {
				t.Errorf("%d records instead of %d", len(reply.Result.Items), n)
			}
			for _, item := range reply.Result.Items {
				if item.Customer.ID != `a "buyer"` || (state != "" && item.State != state) {
					t.Fatalf("a record of %q in state %q", item.Customer.ID, item.State)
				}
			}
		}
	}
	if _, ok := l.body(1_000_000, "x", ""); ok {
		t.Error("there is a list of a million")
	}
}

func TestRoutesKnowGoodKeysAndCount(t *testing.T) {
	c, known := &counters{}, accounts{"good": "acme"}
	ask := func(h http.Handler, target, key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", target, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	finished, auth := c.finished(known, map[string]string{"status=x": "body"}), c.auth(known)
	for _, step := range []struct {
		h           http.Handler
		target, key string
		code        int
		body        string
	}{
		{finished, "/?status=x", "good", 200, "body"},
		{finished, "/?status=y", "good", 404, "404 page not found\n"},
		{finished, "/?status=x", "bad", 401, ""},
		{auth, "/", "good", 204, ""},
		{auth, "/", "bad", 401, ""},
	} {
		w := ask(step.h, step.target, step.key)
		if w.Code != step.code || w.Body.String() != step.body {
			t.Errorf("%s with %s: %d %q", step.target, step.key, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	c.report(w, nil)
	var n map[string]int
	if err := json.Unmarshal(w.Body.Bytes(), &n); err != nil || n["finished"] != 3 || n["auth"] != 2 || n["lists"] != 0 {
		t.Errorf("counted %v, %v", n, err)
	}
}
