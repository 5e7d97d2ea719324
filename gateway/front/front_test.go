package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves with a handler until the test ends, and returns a client's end of a connection.
func serve(t *testing.T, h http.HandlerFunc) io.ReadWriteCloser {
	network, server := memnet.Listen(), &http.Server{Handler: h, IdleTimeout: time.Minute, WriteTimeout: time.Minute}
	l := NewListener(network, server, Options{Serves: func(path string) bool { return path != "/other" }})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	c, err := network.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Any handler that writes its body with one Write may be served: the response is the one that
// net/http would have sent.
func TestResponsesOfAnyHandler(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "hello")
		},
		"status":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"unchanged": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		},
		"many values": func(w http.ResponseWriter, _ *http.Request) { w.Header()["X-A"] = []string{"b", "c\r\nX-Injected: d"} },
		"closes":      func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
	} {
		here, other := answer(t, h, "/here"), answer(t, h, "/other")
		if here != other {
			t.Errorf("%s: %s, want as net/http: %s", name, here, other)
		}
	}
}

// answer is the response to one GET on a connection of its own, without its Date.
func answer(t *testing.T, h http.HandlerFunc, path string) string {
	t.Helper()
	c := serve(t, h)
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), httptest.NewRequest("GET", path, nil))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.Header.Get("Date") == "" || err != nil {
		t.Errorf("%s: no Date; %v", path, err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.Header, resp.ContentLength, resp.Close, string(body))
}

// The Listener may be shut down when nothing is open and the time is over, and closed twice.
func TestShutdownOfAnIdleListener(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // of two channels that are ready select takes either
		l := NewListener(memnet.Listen(), &http.Server{}, Options{})
		if err := l.Shutdown(ended); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A connection that the http.Server has not accepted yet when a Shutdown begins is served to its end.
func TestHandedOverDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.Listen()
		l := NewListener(network, &http.Server{}, Options{})
		var clients sync.WaitGroup
		defer clients.Wait()
		for range 2 {
			clients.Go(func() {
				client, err := network.Dial(t.Context(), "", "")
				if err != nil {
					t.Error(err)
					return
				}
				defer client.Close()
				for _, part := range []string{"POST / HTTP/1.1\r\n", "Host: x\r\n\r\n"} {
					_, _ = io.WriteString(client, part)
					time.Sleep(time.Second)
				}
			})
		}
		first, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		synctest.Wait() // the second one is handed over
		stopped := make(chan error, 1)
		go func() { stopped <- l.Shutdown(t.Context()) }()
		synctest.Wait()
		second, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		text := make([]byte, len("POST / HTTP/1.1\r\nHost: x\r\n\r\n"))
		if n, err := io.ReadFull(second, text); err != nil {
			t.Errorf("%q, %v", text[:n], err)
		}
	})
}
