package app

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// writer counts its calls, and hangs while it is stuck.
type writer struct {
	bytes.Buffer
	calls atomic.Int32  // read while the other goroutine waits for its time
	stuck chan struct{} // nil: it is not
}

func (w *writer) Write(p []byte) (int, error) {
	if w.stuck != nil {
		<-w.stuck
	}
	w.calls.Add(1)
	return w.Buffer.Write(p)
}

// Lines are written together; an error does not wait, and nothing is lost at the end.
func TestLogWriterGathersLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writer
		w := NewLogWriter(&out)
		for i := range 10 {
			fmt.Fprintf(w, "{\"level\":\"INFO\",\"n\":%d}\n", i)
		}
		synctest.Wait()
		if n := out.calls.Load(); n != 0 {
			t.Errorf("%d writes before the delay is over", n)
		}
		time.Sleep(logDelay + time.Millisecond)
		synctest.Wait()
		if n := out.calls.Load(); n != 1 || strings.Count(out.String(), "\n") != 10 {
			t.Errorf("%d writes, %q", n, out.String())
		}
		fmt.Fprintln(w, `{"time":"2026-01-01T00:00:00Z","level":"ERROR"}`)
		synctest.Wait()
		if out.calls.Load() != 2 {
			t.Error("an error waits")
		}
		fmt.Fprintln(w, "the last")
		if w.Close(); !strings.HasSuffix(out.String(), "the last\n") {
			t.Errorf("%q", out.String())
		}
	})
}

// Where nobody reads the log, requests go on and are told that lines are lost, and the program
// can stop.
func TestLogWriterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := writer{stuck: make(chan struct{})}
		w := NewLogWriter(&out)
		line, wrote := bytes.Repeat([]byte("x"), 1024), 0
		var err error
		for ; err == nil && wrote < 3*logFull; wrote += len(line) {
			_, err = w.Write(line)
			synctest.Wait()
		}
		if err != errLogFull || w.Lost() != 1 {
			t.Errorf("after %d bytes: %v, %d lost", wrote, err, w.Lost())
		}
		w.Close()
		close(out.stuck)
	})
}
