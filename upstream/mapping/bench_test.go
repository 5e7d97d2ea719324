package mapping

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// BenchmarkMap supports the decision to parse a reply into a tree of positions and to evaluate
// compiled paths on it. It is the CPU time of a miss but for HTTP and rendering. Milliseconds for
// 1,000 records of 540 bytes, and megabytes allocated, beside what was measured with the same bytes.
// The others only extract: no ids are looked for and no times parsed.
//
//	tree                             2.1 to 2.4   1.2
//	one pass that learns key orders  1.3 to 1.6   0.4   1,400 lines more
//	jsontext validates, gjson        3.6          0.2
//	json/v2 into any, map look-ups   6.8          3.2
//	the same and JMESPath            9.3          4.1
//	the same and gojq               12            4.2
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
	end := End{Records: 1000, Pages: 1, Header: http.Header{"Content-Type": {"application/json"}, "Date": {"x"}, "X-Request-Id": {"7"}}}
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
