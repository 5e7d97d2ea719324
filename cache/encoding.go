package cache

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/maypok86/otter/v2"
)

// Coding is a content coding (RFC 9110, section 8.4.1) that a list can be sent
// in.
type Coding uint8

// The codings.
const (
	Gzip Coding = iota
	Zstd
	codingCount
)

// encoded is an entry in one coding, made at most once.
type encoded struct {
	once sync.Once
	made atomic.Pointer[Representation] // nil: not yet; with a nil Body: not smaller
}

// size is the memory of the coding; 0: it is not made.
func (x *encoded) size() int {
	if v := x.made.Load(); v != nil {
		return cap(v.Body)
	}
	return 0
}

// Encoded gives an entry in a coding, or nil where that would not be smaller or
// the body is small. The first caller makes it, all
// others share it: made at fill time, a coding that nobody asks for would cost a
// quarter of the miss. It is safe for concurrent use.
func (c *Cache) Encoded(e *Entry, as Coding) *Representation {
	if len(e.Identity.Body) < compressMin {
		return nil
	}
	slot := &e.encoded[as]
	v := slot.made.Load()
	if v == nil {
		slot.once.Do(func() {
			slot.made.Store(c.comp.encode(e.Identity.Body, as))
			c.reweigh(e)
		})
		v = slot.made.Load()
	}
	if v == nil || v.Body == nil { // nil: whoever made it panicked
		return nil
	}
	return v
}

// reweigh counts what an entry of the in-process tier, or a view of one, has grown by.
func (c *Cache) reweigh(e *Entry) {
	if e.source != nil {
		e = e.source
	}
	c.tier.Compute(e.Key, func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
		if found && old == e {
			return e, otter.WriteOp
		}
		return old, otter.CancelOp
	})
}

// zstdWindow keeps the memory that a client must hold small; RFC 9659 asks for
// at most 8 MiB.
const zstdWindow = 1 << 20

// compressor makes the coded variants of a body. It is safe for concurrent use.
type compressor struct {
	gzip sync.Pool
	zstd *zstd.Encoder
}

// newCompressor makes one compressor for all goroutines.
func newCompressor() (*compressor, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	return &compressor{zstd: enc}, nil
}

// gzipped compresses with the quickest level: a caller waits for it.
func (c *compressor) gzipped(body []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(body)/2))
	w, ok := c.gzip.Get().(*gzip.Writer)
	if !ok {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid constant
	}
	w.Reset(out)
	// Neither call can fail: the writer behind them is memory.
	_, _ = w.Write(body)
	_ = w.Close()
	c.gzip.Put(w)
	return out.Bytes()
}

// variant makes one coding of a body; its Body is nil where that is not smaller.
func (c *compressor) encode(body []byte, as Coding) *Representation {
	var b []byte
	switch as {
	case Gzip:
		b = c.gzipped(body)
	case Zstd:
		b = c.zstd.EncodeAll(body, make([]byte, 0, len(body)/2))
	}
	if len(b) >= len(body) {
		return &Representation{}
	}
	b = append(make([]byte, 0, len(b)), b...) // what it was made in is several times as large
	return &Representation{Body: b, Length: []string{strconv.Itoa(len(b))}}
}
