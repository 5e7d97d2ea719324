package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// logDelay is how long a line may wait for others before it is written out.
	logDelay = 100 * time.Millisecond
	// logFull is how much may wait where the reader of the log does not keep up;
	// what comes on top is dropped, which whoever writes it is told.
	logFull = 1 << 20
	// logEnough is written out at once.
	logEnough = 64 << 10
)

var errLogFull = errors.New("the log is not read as fast as it is written")

// LogWriter gathers lines and writes them out together, because a system call
// per line would cost a hit more than its look-up. A line about an error goes
// out at once. It is safe for concurrent use; a slow reader of the log holds up
// nobody but the goroutine that writes out.
type LogWriter struct {
	out   io.Writer
	wake  chan struct{} // capacity 1
	ended chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	lines []byte
	spare []byte // the buffer that is not in use
}

// NewLogWriter starts a LogWriter that writes to out; Close ends it.
func NewLogWriter(out io.Writer) *LogWriter {
	w := &LogWriter{out: out, wake: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line, whole or not at all.
func (w *LogWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	if len(w.lines)+len(line) > logFull {
		w.mu.Unlock()
		return 0, errLogFull
	}
	w.lines = append(w.lines, line...)
	size := len(w.lines)
	w.mu.Unlock()
	if size >= logEnough || urgent(line) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// urgent looks where slog's JSON has the level: behind the time, which is shorter than
// what is looked at.
func urgent(line []byte) bool {
	return bytes.Contains(line[:min(len(line), 80)], []byte(`"level":"ERROR"`))
}

// run writes out what waits: from time to time, when it is woken, and at the end.
func (w *LogWriter) run() {
	defer close(w.done)
	tick := time.NewTicker(logDelay)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.wake:
		case <-w.ended:
			w.flush()
			return
		}
		w.flush()
	}
}

// flush is run's alone. Where the log cannot be written there is nowhere to say
// so; the lines are gone.
func (w *LogWriter) flush() {
	w.mu.Lock()
	lines := w.lines
	w.lines = w.spare[:0]
	w.mu.Unlock()
	if len(lines) > 0 {
		_, _ = w.out.Write(lines)
	}
	w.mu.Lock()
	w.spare = lines
	w.mu.Unlock()
}

// Close writes out what waits. Nothing may be written afterwards.
func (w *LogWriter) Close() {
	close(w.ended)
	<-w.done
}

// NewLogger writes one JSON record per line. The Redis client's own remarks go
// the same way instead of between the lines; what they tell is in the metrics,
// so they are for debugging.
func NewLogger(w io.Writer) *slog.Logger {
	logger := slog.New(slog.NewJSONHandler(w, nil))
	redis.SetLogger(redisRemarks{logger})
	return logger
}

// SilenceRedis drops the Redis client's own remarks: a command says itself what
// went wrong.
func SilenceRedis() { redis.SetLogger(redisRemarks{slog.New(slog.DiscardHandler)}) }

// redisRemarks is a logger as the Redis client wants one. The client has one for the
// whole process, so that the newest NewLogger or SilenceRedis counts.
type redisRemarks struct{ logger *slog.Logger }

// Printf is what the Redis client calls with a remark.
func (r redisRemarks) Printf(ctx context.Context, format string, args ...any) {
	r.logger.DebugContext(ctx, "redis client", "remark", fmt.Sprintf(format, args...))
}

var errNoRecord = errors.New("not a record")

// textLog writes records of JSON as text: time, level and message first, then
// key=value in the order of the record. Only one goroutine may write to it.
type textLog struct{ out io.Writer }

// TextLog gives a writer that turns lines of JSON, as the program logs them, into
// lines of text. What is no record goes through as it is.
func TextLog(out io.Writer) io.Writer { return textLog{out} }

// Write takes whole lines.
func (l textLog) Write(lines []byte) (int, error) {
	var text bytes.Buffer
	for line := range bytes.Lines(lines) {
		if !appendText(&text, line) {
			text.Write(line)
		}
	}
	if _, err := l.out.Write(text.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// appendText writes one record. false: it is none, and nothing was written.
func appendText(text *bytes.Buffer, line []byte) bool {
	begin, d := text.Len(), json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := appendObject(text, d, ""); err != nil {
		text.Truncate(begin)
		return false
	}
	text.WriteByte('\n')
	return true
}

// appendObject writes the keys of the object that comes next; those of objects
// within are joined by dots.
func appendObject(text *bytes.Buffer, d *json.Decoder, prefix string) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errNoRecord
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		name := prefix + key.(string) // of an object's keys there are no others
		if value[0] == '{' {
			if err := appendObject(text, json.NewDecoder(bytes.NewReader(value)), name+"."); err != nil {
				return err
			}
			continue
		}
		if text.Len() > 0 && text.Bytes()[text.Len()-1] != '\n' {
			text.WriteByte(' ')
		}
		if name != "time" && name != "level" && name != "msg" {
			text.WriteString(name + "=")
		}
		text.WriteString(plain(value, name == "msg"))
	}
	return nil
}

// plain is a value without quotes where nothing can be mistaken. A message may
// have blanks.
func plain(value json.RawMessage, blanks bool) string {
	var s string
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	unsafe := func(r rune) bool {
		return r < ' ' || r == '"' || r == '=' || r == 0x7f || r == ' ' && !blanks || !strconv.IsPrint(r)
	}
	if s == "" || strings.ContainsFunc(s, unsafe) {
		return strconv.Quote(s)
	}
	return s
}
