package mapping

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// BenchmarkMap supports the decision to walk a reply once with a tree of the
// configured paths instead of asking gjson for each path of each record, or
// decoding first. It is the CPU time of a miss but for HTTP and rendering.
// Microseconds of CPU for 1,000 records of 540 bytes, minimum of 10, of the tree
// and of what was measured beside it with the same bytes. Those did less: no ids
// were looked for and no times parsed.
//
//	tree            980
//	jsontext        1,210, its tokens only
//	sonic           1,920, and it is not strict
//	jsonv2          2,670
//	encoding/json   5,060, duplicate names accepted
//	gjson           5,440, of which 540 to validate
func BenchmarkMap(b *testing.B) {
	plan := planOf(b)
	for _, n := range []int{20, 1000, 5000} {
		body := testkit.SampleTickets(n)
		b.Run(fmt.Sprintf("tree/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				r := plan.NewBuilder(acme)
				if err := func() error { _, err := r.Take(body); r.RemoveIDs(); return err }(); err != nil || len(r.List) != n {
					b.Fatal(len(r.List), err)
				}
			}
			report()
		})
	}
}

// BenchmarkCheckEnd supports the decision to look for marks in the reply without
// its items: it costs the same for every length of a list.
func BenchmarkCheckEnd(b *testing.B) {
	plan := planOf(b)
	r := plan.NewBuilder(acme)
	if _, err := r.Take(testkit.SampleTickets(1000)); err != nil {
		b.Fatal(err)
	}
	end := End{Records: 1000, Pages: 1, Address: "https://l.test/t", Header: http.Header{"Content-Type": {"application/json"}, "Date": {"x"}, "X-Request-Id": {"7"}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.CheckEnd(end); err != nil {
			b.Fatal(err)
		}
	}
}

// cpu reports the processor time of the whole process per operation: the figure
// that a busy machine does not change. Call its result after the loop.
func cpu(b *testing.B) (report func()) {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}
