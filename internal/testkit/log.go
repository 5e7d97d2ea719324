package testkit

import (
	"bytes"
	"sync"
)

// Log keeps what goroutines or a process write. The zero value is empty and has
// no bound. It is safe for concurrent use.
type Log struct {
	Most int // bytes after which nothing more is kept; set before use, 0: no bound

	mu  sync.Mutex
	buf bytes.Buffer
}

// Write never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Most > 0 && l.buf.Len() > l.Most {
		return len(p), nil
	}
	return l.buf.Write(p)
}

// String is what was kept.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Take is String, and empties the log.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}
