package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/mapping"
)

// Bounds of sign-ins, so that neither a legacy that refuses every token nor one
// whose sign-in fails gets one for each request.
const (
	signInBurst    = 10              // at once; then one in each signInEvery
	signInEvery    = time.Second     //
	signInPause    = time.Second     // after a failure, doubled by each further one
	maxSignInPause = 1 * time.Minute // an account that is locked stays so no longer by us

	// Of sign-ins because a token was refused. An account that the legacy refuses for
	// good would else cost everybody the token with each of its requests. One more is
	// kept for accounts that have caused none for renewMemory: such an account would
	// else leave none for the moment when the token has ended for all.
	renewBurst  = 3
	renewEvery  = 10 * time.Second
	renewMemory = 10 * time.Minute
)

// token is what a sign-in gives: the header that identifies the gateway.
type token struct {
	name, value string
	end         time.Time // not used from then on; zero: until it is refused
	made        int       // by which sign-in, from 1 on: two may give the same value
}

// tokens keeps one token for all requests. When it runs out, one sign-in is made, and
// everybody waits for it within their own deadline. When it is refused, those wait
// whose requests were refused: for the others it goes on until there is a new one, as
// the legacy may mean one account only. It is safe for concurrent use.
type tokens struct {
	signInOptions
	request func(context.Context) (token, error) // one sign-in; its errors hold nothing of the reply
	renewOn []int                                // statuses that refuse a token
	renewIf mapping.Conditions                   // one of them in a 200 does so, too
	flight  singleflight.Group
	limit   *rate.Limiter // of all sign-ins
	renewal *rate.Limiter // of those because a token was refused

	mu       sync.Mutex
	token    token // made by none: there is none
	renewing int   // the last sign-in whose token was refused so that a new one is asked for
	err      error // of the last sign-in
	failures int   // one after another
	next     time.Time
	running  bool                 // a sign-in is under way
	leave    func()               // gives up the place that it took over; nil: it has none
	renewed  map[string]time.Time // by account: when a refusal of its requests last caused a sign-in; bounded, as these are
}

// newTokens keeps the tokens that request gives.
func newTokens(s signInOptions, renewOn []int, renewIf mapping.Conditions, request func(context.Context) (token, error)) *tokens {
	return &tokens{
		signInOptions: s, request: request, renewOn: renewOn, renewIf: renewIf,
		limit: rate.NewLimiter(rate.Every(signInEvery), signInBurst), renewal: rate.NewLimiter(rate.Every(renewEvery), renewBurst+1),
		renewed: map[string]time.Time{},
	}
}

// signInMetrics counts sign-ins by result.
type signInMetrics struct{ ok, failed, held prometheus.Counter }

// newSignInMetrics makes the series, which a client before may have made already.
func newSignInMetrics(reg prometheus.Registerer) signInMetrics {
	v := telemetry.Series(reg, subsystem).Counters("sign_ins_total",
		"Requests for a token or session of the legacy system by result; held: not made, because they are bounded.", "result")
	return signInMetrics{v.WithLabelValues("ok"), v.WithLabelValues("error"), v.WithLabelValues("held")}
}

// header gives a token that was made after the refused one, waiting for a new one if need
// be, but no longer than the context allows.
func (t *tokens) header(ctx context.Context, refused token) (token, error) {
	have, err := t.kept(refused)
	if have.made > 0 || err != nil {
		return have, err
	}
	select {
	case r := <-t.flight.DoChan("", func() (any, error) { return t.renew(context.WithoutCancel(ctx), refused) }):
		// A token that was just made is used even if it runs out in a moment:
		// asking for another would give another of the same kind.
		have, _ = r.Val.(token)
		return have, r.Err
	case <-ctx.Done():
		t.takeOver()
		return token{}, fmt.Errorf("no sign-in in time: %w", ctx.Err())
	}
}

// takeOver gives a sign-in that goes on without the request that waited for it a place,
// as that one gives up its own.
func (t *tokens) takeOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running && t.leave == nil {
		t.leave = t.places.give()
	}
}

// kept gives the token that is there, unless it is the refused one, or why there is
// none; neither where a new one is to be asked for.
func (t *tokens) kept(refused token) (token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	switch {
	case t.token.made > refused.made && (t.token.end.IsZero() || now.Before(t.token.end)):
		return t.token, nil
	case t.err != nil && now.Before(t.next):
		return token{}, t.err
	}
	return token{}, nil
}

// renew gets a new token in the place of a refused one, or of none, and keeps it. It
// belongs to nobody's request, and ends after the timeout at the latest.
func (t *tokens) renew(ctx context.Context, refused token) (token, error) {
	if kept, err := t.kept(refused); kept.made > 0 || err != nil { // another call has just ended
		return kept, err
	}
	if !t.limit.AllowN(t.Now(), 1) {
		t.metrics.held.Inc()
		return token{}, errors.New("no token: the legacy's tokens run out soon after it gives them, so sign-ins are held back")
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	t.mu.Lock()
	t.running = true
	t.mu.Unlock()
	fresh, err := t.signIn(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running = false; t.leave != nil {
		t.leave()
		t.leave = nil
	}
	if err != nil && asError(err).Kind == KindNotAsked { // by the ceiling: nothing has failed
		t.metrics.held.Inc()
		return token{}, err
	}
	if t.err = err; err == nil {
		t.metrics.ok.Inc()
		fresh.made = t.token.made + 1
		t.token, t.failures = fresh, 0
		return fresh, nil
	}
	t.metrics.failed.Inc()
	t.next = t.Now().Add(min(signInPause<<min(t.failures, 10), maxSignInPause))
	t.failures++
	return token{}, err
}

// signIn makes one sign-in. A panic in it fails those who wait for it, and not the process.
func (t *tokens) signIn(ctx context.Context) (fresh token, err error) {
	defer t.Panics.Catch(func(p any) { err = bug(p) })
	fresh, err = t.request(ctx)
	if err == nil && !validHeader(fresh.name, fresh.value) {
		return token{}, errors.New("the token cannot be sent in a header")
	}
	return fresh, err
}

// refuses implements credentials.
func (t *tokens) refuses(r reply) bool {
	if r.status != http.StatusOK {
		return slices.Contains(t.renewOn, r.status)
	}
	return t.renewIf.Any(r.body)
}

// renews is true where there is a later token already, or one is asked for, and for the
// first refusal of one while so many sign-ins may be made. Otherwise the refusal is the
// answer to this request alone.
func (t *tokens) renews(refused token, account string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if refused.made < t.token.made || refused.made <= t.renewing {
		return true
	}
	now := t.Now()
	maps.DeleteFunc(t.renewed, func(_ string, at time.Time) bool { return now.Sub(at) >= renewMemory })
	_, again := t.renewed[account]
	if again && t.renewal.TokensAt(now) < 2 || !t.renewal.AllowN(now, 1) {
		t.metrics.held.Inc()
		return false
	}
	t.renewing, t.renewed[account] = refused.made, now
	return true
}
