package cache

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zstdWindow keeps the memory that a client must hold small; RFC 9659 asks for
// at most 8 MiB.
const zstdWindow = 1 << 20

// compressor makes the coded variants of a body. It is safe for concurrent use.
type compressor struct {
	gzip sync.Pool
	zstd *zstd.Encoder
}

func newCompressor() (*compressor, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd encoder: %w", err)
	}
	return &compressor{zstd: enc}, nil
}

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
