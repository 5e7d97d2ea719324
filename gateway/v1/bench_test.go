package v1

import (
	"fmt"
	"testing"
)

// Decides whether rendering by hand pays against encoding/json over structs;
// the conversion to those structs is part of the latter's price. Measured once
// per fill, on the way from the mapping to the cache.
func BenchmarkBuyerList(b *testing.B) {
	for _, n := range []int{20, 1000} {
		list := sample(n)
		size := int64(len(AppendBuyer(nil, list)))
		b.Run(fmt.Sprintf("append/%d", n), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				_ = AppendBuyer(nil, list)
			}
		})
		b.Run(fmt.Sprintf("encoding-json/%d", n), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := marshal(buyersToWire(list)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
