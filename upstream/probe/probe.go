// Package probe shows what a list of the legacy system looks like through the mapping, and
// answers requests with saved replies. It is for whoever writes a mapping; nothing here is
// on the way of a caller's request.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// Probe is a list and what the gateway would make of it. Credentials in it are replaced by [address.Hidden].
type Probe struct {
	Kind         string   `json:"kind"`
	Account      string   `json:"account"`
	Request      *Request `json:"request,omitempty"`    // the first; nil for a saved reply
	Status       int      `json:"status,omitempty"`     // of the first reply, or of the one that was refused; 0: none came
	MediaType    string   `json:"media_type,omitempty"` // of the same
	RefusedReply string   `json:"refused,omitempty"`    // how the one that was refused begins; holds whatever the legacy wrote
	Problem      string   `json:"problem,omitempty"`    // why the list as a whole cannot be used
	Found        string   `json:"found,omitempty"`      // the value that is not what expect says; holds whatever the legacy wrote
	upstream.ListReport
	Verdict string `json:"verdict"` // good; refused: the caller would get an error; doubtful: not what it seems
	Reason  string `json:"reason,omitempty"`
	LeftOut int    `json:"left_out"`       // records that break a rule and are dropped, as the configuration says
	Open    bool   `json:"open,omitempty"` // a request without the configured credentials is answered with 200
}

// The verdicts.
const (
	Good     = "good"
	Refused  = "refused"
	Doubtful = "doubtful"
)

// Request is what was sent.
type Request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // each that may be a credential is hidden
}

// Options choose what is probed.
type Options struct {
	Sample  []byte   // a saved reply; nil: ask for the whole list
	Records int      // to show field by field
	MayMiss []string // paths, or keys, of the mapping that may match nothing
	Words   bool     // also ask for the lists of all words of the filters
	// UserAgent is sent to the legacy system.
	UserAgent string
}

// Run probes one list, with the bounds, the credentials and the repeats of the gateway, but
// without its metrics. The error is for a kind or account that makes no request; all that
// is wrong with the list is in the Probe.
func Run(ctx context.Context, cfg upstream.Config, want upstream.Request, o Options) (*Probe, error) {
	transport := &Transport{live: o.Sample == nil}
	client, err := transport.Client(cfg, o.UserAgent)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var seen *upstream.ListReport
	if o.Sample != nil {
		seen, err = client.ExplainReply(want, o.Records, o.Sample)
	} else {
		seen, err = client.Explain(ctx, want, o.Records, o.Words)
	}
	if err != nil {
		return nil, err
	}
	p := &Probe{Kind: want.Kind, Account: want.Account, ListReport: *seen, Verdict: Good}
	if seen.Problem != nil {
		p.Problem = seen.Problem.Error()
		if refused, ok := errors.AsType[*mapping.Error](seen.Problem); ok {
			p.Found = refused.Found
		}
		if fault, ok := errors.AsType[*decode.Error](seen.Problem); ok {
			p.Found = fault.Found
		}
	}
	if o.Sample == nil {
		p.exchanged(transport.exchanges)
	}
	defer hide(reflect.ValueOf(p).Elem(), cfg.Hider())
	if seen.WouldFail != nil {
		p.Verdict, p.Reason = Refused, seen.WouldFail.Error()
		if seen.Unfit > 1 {
			p.Reason += fmt.Sprintf("; in all %d records cannot be served", seen.Unfit)
		}
		return p, nil
	}
	p.LeftOut = seen.Unfit
	p.Open = o.Sample == nil && answersAnyone(ctx, cfg, want, o.UserAgent)
	var doubts []string
	for _, d := range p.Doubts {
		// A wrong path of a field with a default gives a list that is good and says nothing.
		if !slices.Contains(o.MayMiss, d.Path) {
			doubts = append(doubts, d.Text)
		}
	}
	if len(doubts) > 0 {
		p.Verdict, p.Reason = Doubtful, strings.Join(doubts, "; ")
	}
	return p, nil
}

// answersAnyone tells whether the legacy system answers the first request for a list with 200 also if it
// comes without the configured credentials: once these have ended, every list may look empty.
func answersAnyone(ctx context.Context, cfg upstream.Config, want upstream.Request, userAgent string) bool {
	if (cfg.Auth.Type == "" || cfg.Auth.Type == "none") && len(cfg.Headers) == 0 || len(cfg.Auth.RenewIf) > 0 {
		return false
	}
	cfg = cfg.WithoutSecrets()
	cfg.Headers, cfg.Attempts = nil, 1
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := &Transport{live: true, answered: cancel}
	client, err := transport.Client(cfg, userAgent)
	if err != nil {
		return false
	}
	defer client.Close()
	_, _ = client.Explain(ctx, want, 0, false) // which ends with its first reply
	transport.mu.Lock()
	defer transport.mu.Unlock()
	return len(transport.exchanges) > 0 && transport.exchanges[0].status == http.StatusOK
}

// exchanged takes over what was recorded: the first request, and the first reply that has
// another status than 200, or else the last.
func (p *Probe) exchanged(all []*exchange) {
	p.Request = &Request{Method: p.First.Method, URL: p.First.URL, Body: p.First.Body, Headers: map[string]string{}}
	if len(all) == 0 {
		return
	}
	for name, values := range all[0].header {
		if len(values) == 0 {
			continue // net/http does not send it
		}
		if p.Request.Headers[name] = address.Hidden; slices.Contains([]string{"Accept", "Accept-Encoding", "Content-Type", "Via", "User-Agent"}, name) {
			p.Request.Headers[name] = strings.Join(values, ", ")
		}
	}
	last := all[len(all)-1]
	if i := slices.IndexFunc(all, func(e *exchange) bool { return e.status != 0 && e.status != http.StatusOK }); i >= 0 {
		last = all[i]
	}
	if p.Status, p.MediaType = last.status, last.mediaType; p.Problem != "" {
		p.RefusedReply = last.text()
	}
}

// hide hides a secret in all texts within a value: in requests, and where the legacy system repeats it.
func hide(v reflect.Value, secret func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(secret(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			hide(v.Elem(), secret)
		}
	case reflect.Slice:
		for i := range v.Len() {
			hide(v.Index(i), secret)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				hide(v.Field(i), secret)
			}
		}
	}
}
