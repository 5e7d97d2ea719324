package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// FaultName names a kind of misbehaviour.
type FaultName string

// The faults. Those of a record add one bad record to the list that was asked
// for, so they show on empty lists too.
const (
	FaultDelay    FaultName = "delay"    // the right answer, Delay later
	FaultStatus   FaultName = "status"   // an error page with Status
	FaultRefuse   FaultName = "refuse"   // the connection is closed without an answer
	FaultTruncate FaultName = "truncate" // half the body, then the connection is closed
	FaultHTML     FaultName = "html"     // the login page with 200
	FaultNotJSON  FaultName = "not_json" // the login page with 200 and JSON's media type
	FaultRedirect FaultName = "redirect" // 302 to the login page
	FaultHuge     FaultName = "huge"     // Size records

	FaultWrongOwner    FaultName = "wrong_owner"    // a record of another account
	FaultMissingField  FaultName = "missing_field"  // a record without a title
	FaultNullField     FaultName = "null_field"     // a record whose title is null
	FaultWrongType     FaultName = "wrong_type"     // a record whose title is an object
	FaultDuplicateKeys FaultName = "duplicate_keys" // a record with two titles
	FaultInvalidUTF8   FaultName = "invalid_utf8"   // a record whose title is not UTF-8
	FaultDeep          FaultName = "deep"           // a record with 100,000 nested arrays
)

// FaultNames lists all faults.
func FaultNames() []FaultName {
	return []FaultName{
		FaultDelay, FaultStatus, FaultRefuse, FaultTruncate, FaultHTML, FaultNotJSON, FaultRedirect, FaultHuge,
		FaultWrongOwner, FaultMissingField, FaultNullField, FaultWrongType, FaultDuplicateKeys, FaultInvalidUTF8, FaultDeep,
	}
}

// What zero values of [Fault] stand for.
const (
	defaultStatus = http.StatusInternalServerError
	defaultSize   = 20_000
)

// Fault is a misbehaviour of the lists of one kind, or of both, and of one account or of all.
type Fault struct {
	Name    FaultName     `json:"fault"`
	Kind    string        `json:"kind,omitempty"`    // empty: both
	Account string        `json:"account,omitempty"` // whose lists; empty: all accounts
	Rate    float64       `json:"rate,omitempty"`    // share of requests, drawn from the seed; 0: all
	Count   int           `json:"count,omitempty"`   // ends after so many requests; 0: until cleared
	Delay   time.Duration `json:"delay,omitempty"`   // before the answer; nanoseconds in JSON
	Code    int           `json:"status,omitempty"`  // of FaultStatus; 0: 500
	Size    int           `json:"size,omitempty"`    // records of FaultHuge; 0: 20,000
	// RetryAfter is what FaultStatus tells with a 429 or 503, in seconds; 0: nothing.
	RetryAfter int `json:"retry_after,omitempty"`
}

// validate tells all that is wrong with a fault.
func (f Fault) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	names := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(FaultNames()), "[]")), ", ")
	check(slices.Contains(FaultNames(), f.Name), "fault %q is none of %s", f.Name, names)
	check(f.Kind == "" || f.Kind == KindBuyer || f.Kind == KindSeller, "kind %q is neither buyer nor seller", f.Kind)
	check(f.Rate >= 0 && f.Rate <= 1, "rate %g is not between 0 and 1", f.Rate)
	check(f.Count >= 0 && f.Size >= 0 && f.Delay >= 0 && f.RetryAfter >= 0, "count, size, delay and retry_after cannot be negative")
	check(f.Code == 0 || f.Code >= 200 && f.Code <= 599, "status %d is not between 200 and 599", f.Code)
	return errors.Join(errs...)
}

// faultSet are the faults of a server.
type faultSet struct {
	mu     sync.Mutex
	faults []Fault
	rng    *rand.Rand
}

// SetFault begins a fault. It replaces one of the same name, kind and account. With
// several, the first set that hits a request acts on it. An error tells what is
// wrong with f; nothing has changed then.
//
// An http.Transport repeats a GET by itself when a kept-alive connection is
// closed without an answer, so with FaultRefuse one request of a client may be
// two here.
func (s *faultSet) SetFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	f.Code, f.Size = cmp.Or(f.Code, defaultStatus), cmp.Or(f.Size, defaultSize)
	same := func(g Fault) bool { return g.Name == f.Name && g.Kind == f.Kind && g.Account == f.Account }
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.faults, same); i >= 0 {
		s.faults[i] = f
	} else {
		s.faults = append(s.faults, f)
	}
	return nil
}

// ClearFaults ends the faults that were set for a kind; "" ends all.
func (s *faultSet) ClearFaults(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f Fault) bool { return kind == "" || f.Kind == kind })
}

// Faults lists what is in force, with the counts that are left.
func (s *faultSet) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Fault{}, s.faults...) // never null in JSON
}

// next decides about one request for an account's list of a kind.
func (s *faultSet) next(kind, account string) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Kind != "" && f.Kind != kind || f.Account != "" && f.Account != account {
			continue
		}
		if f.Rate > 0 && s.rng.Float64() >= f.Rate {
			continue
		}
		switch {
		case f.Count > 1:
			s.faults[i].Count--
		case f.Count == 1:
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return f, true
	}
	return Fault{}, false
}
