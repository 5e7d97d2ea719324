package legacy

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

//go:embed panel.html
var panel []byte

// adminRoutes are for people and drills. They take no credentials, so they
// answer callers on this very machine only.
//
//	PUT    /admin/fault?fault=status&kind=buyer&account=acme&rate=0.5&count=10&delay=1s&status=503&size=20000&retry_after=2
//	GET    /admin/fault                  what is in force
//	DELETE /admin/fault?kind=buyer       without kind: all
//	PUT    /admin/latency?delay=20ms
//	PUT    /admin/changes?every=30s      0s: off
//	POST   /admin/answer?account=acme    changes a buyer's list now
//	POST   /admin/ask?account=initech    a new inquiry at the top of it
//	GET    /admin/stats
//	GET    /admin/accounts
//	GET    /                             a page with buttons for these
func (s *Server) adminRoutes(mux *http.ServeMux) {
	for pattern, do := range map[string]func(url.Values) (any, error){
		"PUT /admin/fault":    s.adminSetFault,
		"GET /admin/fault":    func(url.Values) (any, error) { return s.Faults(), nil },
		"DELETE /admin/fault": func(q url.Values) (any, error) { s.ClearFaults(q.Get("kind")); return s.Faults(), nil },
		"PUT /admin/latency":  durationSetter("delay", s.SetLatency),
		"PUT /admin/changes":  durationSetter("every", s.SetChangeEvery),
		"POST /admin/answer":  accountChanger(s.Answer),
		"POST /admin/ask":     accountChanger(s.Ask),
		"GET /admin/stats":    func(url.Values) (any, error) { return s.Stats(), nil },
		"GET /admin/accounts": s.adminAccounts,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { admin(w, r, do) })
	}
}

// loopback says whether a request comes from this very machine.
func loopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// admin answers a caller on this machine with what do returns, as JSON, and with 400
// for its error.
func admin(w http.ResponseWriter, r *http.Request, do func(url.Values) (any, error)) {
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
}

// adminSetFault reads a fault out of the parameters. All that cannot be read are told
// at once.
func (s *Server) adminSetFault(q url.Values) (any, error) {
	f := Fault{Name: FaultName(q.Get("fault")), Kind: q.Get("kind"), Account: q.Get("account")}
	var errs []error
	read := func(key string, parse func(string) error) {
		if v := q.Get(key); v != "" {
			if err := parse(v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
		}
	}
	read("rate", func(v string) (err error) { f.Rate, err = strconv.ParseFloat(v, 64); return err })
	read("count", func(v string) (err error) { f.Count, err = strconv.Atoi(v); return err })
	read("delay", func(v string) (err error) { f.Delay, err = time.ParseDuration(v); return err })
	read("retry_after", func(v string) (err error) { f.RetryAfter, err = strconv.Atoi(v); return err })
	read("status", func(v string) (err error) { f.Code, err = strconv.Atoi(v); return err })
	read("size", func(v string) (err error) { f.Size, err = strconv.Atoi(v); return err })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.SetFault(f); err != nil {
		return nil, err
	}
	return s.Faults(), nil
}

// durationSetter makes a route that sets a duration, which must not be negative.
func durationSetter(key string, set func(time.Duration)) func(url.Values) (any, error) {
	return func(q url.Values) (any, error) {
		d, err := time.ParseDuration(q.Get(key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if d < 0 {
			return nil, fmt.Errorf("%s cannot be negative", key)
		}
		set(d)
		return map[string]string{key: d.String()}, nil
	}
}

// accountChanger makes a route that changes the list of a buyer.
func accountChanger(change func(string) bool) func(url.Values) (any, error) {
	return func(q url.Values) (any, error) {
		account := q.Get("account")
		if !change(account) {
			return nil, fmt.Errorf("no buyer %q", account)
		}
		return map[string]string{"changed": account}, nil
	}
}

// adminAccounts lists all accounts with the lengths of their lists, for the page.
func (s *Server) adminAccounts(url.Values) (any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	type account struct {
		Kind      string `json:"kind"`
		Account   string `json:"account"`
		Inquiries int    `json:"inquiries"`
	}
	var all []account
	for _, kind := range []string{KindBuyer, KindSeller} {
		for _, a := range s.Accounts(kind) {
			all = append(all, account{kind, a, len(s.data.of(kind, a).tickets)})
		}
	}
	return all, nil
}
