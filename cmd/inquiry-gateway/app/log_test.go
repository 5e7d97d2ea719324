package app

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogWriterGathersLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out countingWriter
		w := NewLogWriter(&out)
		for i := range 10 {
			fmt.Fprintf(w, "{\"level\":\"INFO\",\"n\":%d}\n", i)
		}
		synctest.Wait()
		if out.calls() != 0 {
			t.Errorf("%d writes before the delay is over", out.calls())
		}
		time.Sleep(logDelay + time.Millisecond)
		synctest.Wait()
		if out.calls() != 1 || strings.Count(out.String(), "\n") != 10 {
			t.Errorf("%d writes, %q", out.calls(), out.String())
		}
		fmt.Fprintln(w, `{"time":"2026-01-01T00:00:00Z","level":"ERROR"}`)
		synctest.Wait()
		if out.calls() != 2 {
			t.Error("an error waits")
		}
		fmt.Fprintln(w, "the last")
		if w.Close(); !strings.HasSuffix(out.String(), "the last\n") {
			t.Errorf("%q", out.String())
		}
	})
}

// Where nobody reads the log, requests go on and are told that lines are lost.
func TestLogWriterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		w := NewLogWriter(writerFunc(func(p []byte) (int, error) { <-stuck; return len(p), nil }))
		line := bytes.Repeat([]byte("x"), 1024)
		var err error
		for range 3 * logFull / len(line) {
			if _, err = w.Write(line); err != nil {
				break
			}
			synctest.Wait()
		}
		if err != errLogFull {
			t.Errorf("got %v", err)
		}
		if w.Lost() == 0 {
			t.Error("lost lines are not counted")
		}
		w.Close() // returns although the reader is stuck
		close(stuck)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type countingWriter struct {
	mu  sync.Mutex
	n   int
	buf bytes.Buffer
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.buf.Write(p)
}

func (c *countingWriter) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *countingWriter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}
