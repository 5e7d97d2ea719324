package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/testkit"
)

func TestProgressIsOneLineThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen testkit.Log
		ended := make(chan struct{})
		go writeProgress(&screen, func() string { return "3 of 9" }, time.Second, time.Second, ended)
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if got := screen.String(); got != "" {
			t.Errorf("before its time: %q", got)
		}
		time.Sleep(1002 * time.Millisecond)
		close(ended)
		synctest.Wait()
		if got, want := screen.String(), strings.Repeat("\r3 of 9\x1b[K", 2)+"\r\x1b[K"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	if terminal(&testkit.Log{}) {
		t.Error("a buffer is no terminal")
	}
}
