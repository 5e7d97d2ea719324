// Package localcache hides the generic type of the bounded in-process caches behind an interface.
package localcache

import (
	"iter"

	"github.com/maypok86/otter/v2"
)

// Cache is a bounded cache, made by otter.New; its methods are documented there. It
// is safe for concurrent use.
//
// It is an interface for the compiler's sake. otter's type is generic, and every
// package that imports a struct with one compiles all of its methods again: 3,000
// functions in the package that builds the program.
type Cache[K comparable, V any] interface {
	GetIfPresent(key K) (V, bool)
	GetEntryQuietly(key K) (otter.Entry[K, V], bool)
	All() iter.Seq2[K, V]

	Set(key K, value V) (V, bool)
	SetIfAbsent(key K, value V) (V, bool)
	Compute(key K, next func(old V, found bool) (V, otter.ComputeOp)) (V, bool)
	Invalidate(key K) (V, bool)
	InvalidateAll()

	EstimatedSize() int
	WeightedSize() uint64
	GetMaximum() uint64
	SetMaximum(most uint64)
	CleanUp()
}
