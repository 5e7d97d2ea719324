// Package legacy is a runnable legacy inquiry system: the kind of backend that
// the gateway is put in front of and that nobody may change any more.
//
// It serves two lists with odd names, nested objects, letters for states, local
// times without a zone, and internal UUIDs in places where they should not be
// (inside texts too). It misbehaves on demand. The demo, the tests and the load
// drills all use it; [Server.Truth] tells what a correct gateway answers.
package legacy

import (
	"cmp"
	_ "embed"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed mapping.yaml
var mapping string

// Mapping returns the gateway's `upstream:` section that maps this system, as
// YAML with comments. Its base_url is [MappingBaseURL]; a caller that runs the
// system elsewhere replaces that.
func Mapping() []byte {
	_, text, _ := strings.Cut(mapping, "\n") // the first line says where editors find the schema, in this repository
	return []byte(text)
}

// MappingBaseURL is the base_url in [Mapping].
const MappingBaseURL = "http://127.0.0.1:9300"

// The two kinds of accounts, as the gateway names them.
const (
	KindBuyer  = "buyer"
	KindSeller = "seller"
)

// Accounts that every data set has, whatever its seed.
const (
	BuyerTypical  = "acme"     // a few dozen inquiries
	BuyerOther    = "globex"   // a dozen
	BuyerEmpty    = "initech"  // none
	BuyerBusy     = "megacorp" // a fifth of all inquiries
	SellerTypical = "hanriver" // the biggest company
	SellerEmpty   = "fresh-start"
)

// Sizes that zero values of [Options] stand for.
const (
	DefaultCompanies = 8
	DefaultBuyers    = 200
	DefaultInquiries = 5000
)

// Options shape a legacy system. The zero value is usable.
type Options struct {
	Seed      uint64 // same seed and sizes: same data, byte for byte
	Companies int    // sellers; 0: DefaultCompanies, at least 2
	Buyers    int    // 0: DefaultBuyers, at least 4
	Inquiries int    // over all buyers; 0: DefaultInquiries

	// Latency is spent before every list. 0: none.
	Latency time.Duration
	// ChangeEvery is the mean time between two changes of one buyer's list. The
	// moments follow from the seed and are applied when a list is next asked
	// for, so no goroutine runs and any clock will do. 0: lists never change by
	// themselves.
	ChangeEvery time.Duration
	// Now is the clock of those changes; nil: time.Now.
	Now func() time.Time
}

// Server is the legacy system as an http.Handler. It starts no goroutine and
// needs no closing. All methods are safe for concurrent use.
type Server struct {
	now     func() time.Time
	routes  *http.ServeMux
	latency atomic.Int64 // nanoseconds

	mu   sync.RWMutex
	data *dataset // guarded by mu

	bodies bodyCache
	stats  counters
	faultSet
}

// New makes a legacy system with generated data.
func New(opts Options) *Server {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Server{now: opts.Now, data: generate(sized(opts))}
	s.stats.all.Faults = map[FaultName]int{}
	s.latency.Store(int64(opts.Latency))
	s.faultSet.rng = rand.New(rand.NewPCG(opts.Seed, 0xfa17))
	s.data.changeEvery(opts.ChangeEvery, s.now())
	s.routes = s.routeTable()
	return s
}

// sized puts in the default sizes, and the least that the data needs.
func sized(o Options) Options {
	o.Companies = max(cmp.Or(o.Companies, DefaultCompanies), 2)
	o.Buyers = max(cmp.Or(o.Buyers, DefaultBuyers), 4)
	o.Inquiries = max(cmp.Or(o.Inquiries, DefaultInquiries), 1)
	return o
}

// SetLatency changes the time spent before every list, from the next request on.
func (s *Server) SetLatency(d time.Duration) { s.latency.Store(int64(d)) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.routes.ServeHTTP(w, r)
}
