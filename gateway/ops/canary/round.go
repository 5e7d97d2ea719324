package canary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"inquiry-gateway/internal/filters"
)

// maxBody bounds a body. An account for the canary has a short list.
const maxBody = 32 << 20

// round asks for the lists of one kind with every key, and finds out what there is to
// find out.
type round struct {
	*Canary
	kind   Kind
	client *http.Client
	url    string
	lists  []list // by key, those that were given
	found  map[string]*finding
}

// list is what one key was given.
type list struct {
	answer  *answer
	owner   Owner
	name    string // of the key in the configuration, with the ids of the key and its account
	key     Secret
	tag     string
	records map[[sha256.Size]byte]int // hash of a record -> its place in the list, from 1
}

// answer is what came back, read whole.
type answer struct {
	code   int
	header http.Header
	body   []byte
	id     string // of the request, by which its log record is found
}

// run asks everything and notes the results.
func (r *round) run(ctx context.Context) {
	r.note(CrossRead, OK, nil, "")
	r.note(Access, OK, nil, "")
	for _, key := range r.kind.Keys {
		if l, ok := r.askList(ctx, key); ok {
			r.lists = append(r.lists, l)
		}
	}
	for i, a := range r.lists {
		for j, b := range r.lists {
			if i < j {
				r.compare(a, b)
			}
			if i != j {
				r.askWithTagOf(ctx, a, b)
			}
		}
	}
	r.askToBeRefused(ctx)
}

// askList asks for the whole list of a key. Without a list, or with an empty one, nothing
// can be compared.
func (r *round) askList(ctx context.Context, key Key) (l list, ok bool) {
	l = list{name: key.Name, key: key.Secret, records: map[[sha256.Size]byte]int{}}
	var err error
	if l.owner, err = r.opts.Owner(ctx, r.kind.Name, key.Secret); err != nil {
		r.note(CrossRead, Blind, nil, "%s: %v", key.Name, err)
		return l, false
	}
	l.name = fmt.Sprintf("%s (key %s of account %s)", key.Name, l.owner.KeyID, l.owner.Account)
	for _, other := range r.lists {
		if other.owner.Account == l.owner.Account {
			r.note(CrossRead, Blind, nil, "%s is of the same account as %s, so there is nothing to compare; use a key of another account", l.name, other.name)
			return l, false
		}
	}
	if l.answer, err = r.ask(ctx, r.kind.Name, key.Secret, ""); err != nil {
		r.note(CrossRead, Blind, nil, "%s: no answer: %v", l.name, err)
		return l, false
	}
	var envelope struct {
		Data []json.RawMessage `json:"data"`
	}
	switch err := json.Unmarshal(l.answer.body, &envelope); {
	case l.answer.code != http.StatusOK:
		r.note(CrossRead, Blind, []*answer{l.answer}, "%s is answered %d", l.name, l.answer.code)
		return l, false
	case err != nil:
		r.note(CrossRead, Blind, []*answer{l.answer}, "%s gets what is no list", l.name)
		return l, false
	case len(envelope.Data) == 0:
		r.note(CrossRead, Blind, []*answer{l.answer}, "the list of %s is empty, so there is nothing to compare", l.name)
		return l, false
	}
	l.tag = l.answer.header.Get("ETag")
	for i, record := range envelope.Data {
		l.records[sha256.Sum256(record)] = i + 1
	}
	return l, true
}

// compare looks for records of one account in the list of another, and for one tag of two
// lists, by which a caller would take the other's list for its own.
func (r *round) compare(a, b list) {
	common, first, second := 0, 0, 0
	for record, place := range a.records {
		if other, both := b.records[record]; both {
			if common++; first == 0 || place < first { // the first one is the easiest to find
				first, second = place, other
			}
		}
	}
	both := []*answer{a.answer, b.answer}
	if common > 0 {
		r.note(CrossRead, Failed, both, "records that are in the lists of both %s and %s: %d; the first is record %d of the one list, record %d of the other",
			a.name, b.name, common, first, second)
	}
	if a.tag != "" && a.tag == b.tag {
		r.note(CrossRead, Failed, both, "the lists of %s and of %s have one entity tag", a.name, b.name)
	}
}

// askWithTagOf asks for a's list with the entity tag of b's, which must not be good for it.
func (r *round) askWithTagOf(ctx context.Context, a, b list) {
	if a.tag == b.tag || b.tag == "" {
		return
	}
	switch got, err := r.ask(ctx, r.kind.Name, a.key, b.tag); {
	case err != nil:
		r.note(CrossRead, Blind, nil, "%s: no answer: %v", a.name, err)
	case got.code == http.StatusNotModified:
		r.note(CrossRead, Failed, []*answer{b.answer, got}, "%s gets 304 for the entity tag of the list of %s", a.name, b.name)
	}
}

// askToBeRefused asks without a key, with one that nobody was given, and with one of the
// other kind of list.
func (r *round) askToBeRefused(ctx context.Context) {
	other := map[string]string{"buyer": "seller", "seller": "buyer"}[r.kind.Name]
	for _, q := range []struct {
		who, list string
		key       Secret
	}{
		{"a request without a key", r.kind.Name, ""},
		{"a request with an invented key", r.kind.Name, r.invented},
		{"a request with a key of the other kind", other, r.kind.Keys[0].Secret},
	} {
		if q.list == r.kind.Name {
			r.refused.Inc()
		}
		switch got, err := r.ask(ctx, q.list, q.key, ""); {
		case err != nil:
			r.note(Access, Blind, nil, "%s: no answer: %v", q.who, err)
		case got.code < http.StatusBadRequest:
			r.note(Access, Failed, []*answer{got}, "%s is answered %d", q.who, got.code)
		case got.code == http.StatusNotFound && q.list != r.kind.Name: // there is no such list
		case got.code != http.StatusUnauthorized && got.code != http.StatusForbidden:
			r.note(Access, Blind, []*answer{got}, "%s is answered %d", q.who, got.code)
		}
	}
}

// ask makes one request and reads its answer. An error is one of the connection, or of a
// body that is too long; it holds no key.
func (r *round) ask(ctx context.Context, kind string, key Secret, tag string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/api/v1/"+kind+"/inquiries", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "inquiry-gateway-canary/"+r.opts.Version)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+string(key))
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := r.client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the address is known
	}
	if err != nil {
		return nil, err
	}
	a := &answer{code: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err = errors.Join(err, resp.Body.Close()); err == nil && len(a.body) > maxBody {
		err = fmt.Errorf("the body has more than %d MiB; give the canary accounts with short lists", maxBody>>20)
	}
	if id := resp.Header.Get("X-Request-Id"); filters.Valid(id) { // of the form of those that may go into the log
		a.id = id
	}
	return a, err
}

// accounts are those of the lists that were given.
func (r *round) accounts() []string {
	all := []string{}
	for _, l := range r.lists {
		all = append(all, l.owner.Account)
	}
	return all
}

var errOtherCertificate = errors.New("another certificate is shown there than the gateway's own")

// dial makes the way to a listener of this machine. One on all addresses is reached on
// loopback; proxies of the environment are not used. Whoever shows another certificate is
// not the listener and gets no key; names and dates of it are no matter here.
func dial(address net.Addr, certificate []byte) (base string, transport *http.Transport) {
	host, port, err := net.SplitHostPort(address.String())
	hosts := []string{host}
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		hosts = []string{"127.0.0.1", "::1"} // "[::]" is both as a rule, but a machine may have only one
	}
	transport = &http.Transport{
		DisableCompression: true, MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			var dialer net.Dialer
			for _, host := range hosts {
				if conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(host, port)); err == nil {
					break
				}
			}
			return conn, err
		},
	}
	if certificate == nil {
		return "http://" + net.JoinHostPort(hosts[0], port), transport
	}
	// The usual verification asks for a name and an issuer, which a loopback address has not.
	transport.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the whole certificate, at resumption too
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, certificate) {
				return errOtherCertificate
			}
			return nil
		},
	}
	return "https://" + net.JoinHostPort(hosts[0], port), transport
}
