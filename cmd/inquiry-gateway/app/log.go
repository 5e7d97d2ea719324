package app

import (
	"bytes"
	"errors"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

const (
	// logDelay is how long a line may wait for others before it is written out.
	logDelay = 100 * time.Millisecond
	// logFull is how many bytes may wait for a slow reader of the log; lines beyond it are
	// dropped and counted.
	logFull = 1 << 20
	// logEnough bytes are written out at once.
	logEnough = 64 << 10
	// logEnd is how long Close waits for a reader of the log that does not read.
	logEnd = time.Second
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

	lost  atomic.Uint64 // lines, of any sort
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
		w.lost.Add(1)
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

// flush writes out what waits; only run calls it. Lines that cannot be written are gone:
// there is nowhere to say so.
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

// Lost is how many lines were dropped, security records included.
func (w *LogWriter) Lost() uint64 { return w.lost.Load() }

// Close writes out what waits, unless nobody reads the log: a stop does not wait for
// that. Nothing may be written afterwards.
func (w *LogWriter) Close() {
	close(w.ended)
	select {
	case <-w.done:
	case <-time.After(logEnd):
	}
}

// NewLogger makes a logger that writes one JSON record per line.
func NewLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }

// RedirectLibraries has libraries log to logger what they would print on standard error. It holds for
// the whole process. The lines of the standard log package are not logged themselves, because
// net/http quotes responses in them.
func RedirectLibraries(logger *slog.Logger) {
	log.SetFlags(log.Llongfile)
	log.SetOutput(&standardLog{logger: logger, last: map[string]time.Time{}})
	otel.SetLogger(logr.New(otelLog{logger}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { otelLog{logger}.Error(err, "traces") }))
}

// standardLogEvery is how often a line of code that calls the standard log package gets a record.
const standardLogEvery = time.Minute

// standardLog writes a record in place of a line of the standard log package, which begins with the
// file and line that it comes from.
type standardLog struct {
	logger *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time // record by source
}

func (l *standardLog) Write(line []byte) (int, error) {
	source, text, _ := strings.Cut(string(line), ": ")
	l.mu.Lock()
	now := time.Now()
	due := now.Sub(l.last[source]) >= standardLogEvery
	if due {
		l.last[source] = now
	}
	l.mu.Unlock()
	msg := "a library reported a problem; its text is left out, because it may quote a response: look up the source"
	if strings.HasPrefix(text, "Unsolicited response") {
		msg = "a server sent more bytes than its Content-Length announced, or a response nobody asked for; they were dropped" +
			" with the connection: check what the legacy system, its proxies and the authorization server send"
	}
	if due {
		l.logger.Warn(msg, "source", source)
	}
	return len(line), nil
}

// otelLog is where the OpenTelemetry SDK logs, without the values: headers for a collector are secrets.
type otelLog struct{ logger *slog.Logger }

func (otelLog) Init(logr.RuntimeInfo)            {}
func (otelLog) Enabled(int) bool                 { return true }
func (l otelLog) WithValues(...any) logr.LogSink { return l }
func (l otelLog) WithName(string) logr.LogSink   { return l }

// Info logs only that a variable has been ignored; the SDK has no other level for that.
func (l otelLog) Info(_ int, msg string, variable ...any) {
	if strings.HasPrefix(msg, "Got invalid value") && len(variable) > 0 {
		l.logger.Warn("OpenTelemetry ignores a variable that is no number", "variable", variable[0])
	}
}

func (l otelLog) Error(err error, doing string, _ ...any) {
	l.logger.Warn("OpenTelemetry reports a problem; check the OTEL_ variables", "error", doing+": "+err.Error())
}
