package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

type counters struct{ listRequests, finishedRequests, authRequests atomic.Int64 }

func (c *counters) lists(l *lists) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.listRequests.Add(1)
		q := r.URL.Query()
		n, err := strconv.Atoi(strings.TrimPrefix(r.PathValue("records"), "r"))
		body, ok := l.body(n, q.Get("customer"), q.Get("state"))
		if err != nil || !ok {
			http.Error(w, "no list of this length", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // a caller that left is not a concern
	})
}

func (c *counters) finished(known accounts, bodies map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.finishedRequests.Add(1)
		if _, ok := known.of(r); !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, ok := bodies[r.URL.RawQuery]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body))
	})
}

// accounts are by API key.
type accounts map[string]string

func (a accounts) of(r *http.Request) (string, bool) {
	account, ok := a[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return account, ok
}

func (c *counters) auth(known accounts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.authRequests.Add(1)
		account, ok := known.of(r)
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Account", account)
		w.WriteHeader(http.StatusNoContent)
	})
}

func mustRead(file string) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var m map[string]string
	if err := json.Unmarshal(text, &m); err != nil {
		log.Fatalf("%s: %v", file, err)
	}
	return m
}
