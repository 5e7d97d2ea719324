package legacy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// FaultName names a kind of misbehaviour.
type FaultName string

// The faults.
const (
	FaultDelay      FaultName = "delay"       // the right answer, Delay later
	FaultStatus     FaultName = "status"      // an error page with Code
	FaultRefuse     FaultName = "refuse"      // the connection is closed without a response
	FaultTruncate   FaultName = "truncate"    // half the body, then the connection is closed
	FaultHTML       FaultName = "html"        // the login page with 200
	FaultGarbage    FaultName = "garbage"     // 200 with an unreadable body
	FaultWrongOwner FaultName = "wrong_owner" // one record more, which is another account's
)

// Fault is a misbehaviour of the lists of one kind, or of both, for one account, or for all.
type Fault struct {
	Name    FaultName     `json:"fault"`
	Kind    string        `json:"kind,omitempty"`    // empty: both
	Account string        `json:"account,omitempty"` // empty: all
	Rate    float64       `json:"rate,omitempty"`    // share of requests, drawn from the seed; 0: all
	Delay   time.Duration `json:"delay,omitempty"`   // before the answer; nanoseconds in JSON
	Code    int           `json:"status,omitempty"`  // of FaultStatus; 0: 500
}

// validate tells all that is wrong with a fault.
func (f Fault) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	names := []FaultName{FaultDelay, FaultStatus, FaultRefuse, FaultTruncate, FaultHTML, FaultGarbage, FaultWrongOwner}
	check(slices.Contains(names, f.Name), "fault %q is none of %s", f.Name, names)
	check(f.Kind == "" || f.Kind == KindBuyer || f.Kind == KindSeller, "kind %q is neither buyer nor seller", f.Kind)
	check(f.Rate >= 0 && f.Rate <= 1, "rate %g is not between 0 and 1", f.Rate)
	check(f.Delay >= 0, "delay cannot be negative")
	check(f.Code == 0 || f.Code >= 200 && f.Code <= 599, "status %d is not between 200 and 599", f.Code)
	return errors.Join(errs...)
}

// SetFault begins a fault. It replaces one of the same name, kind and account. With
// several, the first set that hits a request acts on it. An error tells what is
// wrong with f; nothing has changed then.
//
// An http.Transport repeats a GET by itself when a kept-alive connection is
// closed without a response, so with FaultRefuse one request of a client may be
// two here.
func (s *Server) SetFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	f.Code = cmp.Or(f.Code, http.StatusInternalServerError)
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(g Fault) bool { return g.Name == f.Name && g.Kind == f.Kind && g.Account == f.Account }
	if i := slices.IndexFunc(s.faults, same); i >= 0 {
		s.faults[i] = f
	} else {
		s.faults = append(s.faults, f)
	}
	return nil
}

// ClearFaults ends the faults that were set for a kind; "" ends all.
func (s *Server) ClearFaults(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f Fault) bool { return kind == "" || f.Kind == kind })
}

// nextFault decides about one request for an account's list of a kind. The caller holds mu.
func (s *Server) nextFault(kind, account string) Fault {
	for _, f := range s.faults {
		if (f.Kind == "" || f.Kind == kind) && (f.Account == "" || f.Account == account) && (f.Rate == 0 || s.faultRand.Float64() < f.Rate) {
			return f
		}
	}
	return Fault{}
}

// adminRoutes are for people and tests. They take no credentials, so they
// answer callers on this very machine only.
//
//	PUT    /admin/fault?fault=status&kind=buyer&rate=0.5&delay=1s&status=503&account=kim
//	GET    /admin/fault                  what is in force
//	DELETE /admin/fault?kind=buyer       without kind: all
//	GET    /admin/stats
//	GET    /admin/accounts
//	GET    /                             a page with buttons for faults
func (s *Server) adminRoutes() {
	faults := func() any {
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]Fault{}, s.faults...) // never null in JSON
	}
	for pattern, do := range map[string]func(url.Values) (any, error){
		"PUT /admin/fault": func(q url.Values) (any, error) {
			f, err := parseFault(q)
			if err == nil {
				err = s.SetFault(f)
			}
			return faults(), err
		},
		"GET /admin/fault":    func(url.Values) (any, error) { return faults(), nil },
		"DELETE /admin/fault": func(q url.Values) (any, error) { s.ClearFaults(q.Get("kind")); return faults(), nil },
		"GET /admin/stats":    func(url.Values) (any, error) { return s.Stats(), nil },
		"GET /admin/accounts": func(url.Values) (any, error) {
			return map[string][]string{KindBuyer: s.Accounts(KindBuyer), KindSeller: s.Accounts(KindSeller)}, nil
		},
	} {
		s.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !loopback(r) {
				http.Error(w, "the admin routes answer loopback callers only", http.StatusForbidden)
				return
			}
			answer, err := do(r.URL.Query())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // a caller that left is not a concern
		})
	}
}

// parseFault reads a fault out of the parameters. All that cannot be read are told
// at once.
func parseFault(q url.Values) (Fault, error) {
	f := Fault{Name: FaultName(q.Get("fault")), Kind: q.Get("kind"), Account: q.Get("account")}
	var errs []error
	for key, parse := range map[string]func(string) error{
		"rate":   func(v string) (err error) { f.Rate, err = strconv.ParseFloat(v, 64); return err },
		"delay":  func(v string) (err error) { f.Delay, err = time.ParseDuration(v); return err },
		"status": func(v string) (err error) { f.Code, err = strconv.Atoi(v); return err },
	} {
		if v := q.Get(key); v != "" {
			if err := parse(v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
		}
	}
	return f, errors.Join(errs...)
}

// loopback says whether a request comes from this very machine.
func loopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}
