package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"
)

const (
	// progressAfter is how long a command may be silent.
	progressAfter = 2 * time.Second
	progressEvery = 500 * time.Millisecond
)

// terminal says whether what is written to w is read by a person.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// showProgress shows on one line of a terminal how far a command is, from its
// second second on, until stop is called. text must be safe for concurrent use.
// Where standard error is no terminal, nothing is shown.
func showProgress(c *cli.Command, text func() string) (stop func()) {
	out := c.Root().ErrWriter
	if !terminal(out) {
		return func() {}
	}
	ended := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { writeProgress(out, text, progressAfter, progressEvery, ended) })
	return sync.OnceFunc(func() { close(ended); shown.Wait() })
}

// writeProgress writes the line anew until ended is closed, then removes it: nothing of
// it stays between the lines of the answer. A quick command shows none.
func writeProgress(out io.Writer, text func() string, after, every time.Duration, ended <-chan struct{}) {
	const toStart, clear = "\r", "\x1b[K"
	next := time.NewTimer(after)
	defer next.Stop()
	for written := false; ; written = true {
		select {
		case <-next.C:
			fmt.Fprint(out, toStart, text(), clear)
			next.Reset(every)
		case <-ended:
			if written {
				fmt.Fprint(out, toStart, clear)
			}
			return
		}
	}
}
