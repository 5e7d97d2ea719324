package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Bounds of what is tried. One mapping is tried at a time, the others wait.
const (
	maxTryBytes = 8 << 20 // of the request: the replies and the mapping as JSON texts
	tryTimeout  = 10 * time.Second
)

// TryRequest is the body of POST /ops/try: a mapping that is being written, and the
// saved reply that it is tried on. Nothing of it is kept.
type TryRequest struct {
	Kind    string `json:"kind"` // buyer or seller
	Account string `json:"account"`
	Mapping string `json:"mapping"` // what stands below upstream.buyer or upstream.seller, as YAML
	Reply   string `json:"reply"`
	Replies string `json:"replies"` // to the second calls, as YAML; may be empty
}

// Sample is the reply to a SampleRequest, and those to the second calls for its first
// records, in the form that TryRequest has them.
type Sample struct {
	Reply   string `json:"reply"`
	Replies string `json:"replies"`
}

// SampleRequest is the body of POST /ops/sample: whose list is asked for once, for
// replies to try mappings on.
type SampleRequest struct {
	Kind    string `json:"kind"`
	Account string `json:"account"`
}

// ErrTry is an error of Options.Try and Options.Sample that is the caller's, 400. Any
// other one is 502.
var ErrTry = errors.New("cannot be tried")

// Trial are the functions of the playground.
type Trial struct {
	// Mapping gives the mapping of a kind that runs, as YAML.
	Mapping func(kind string) string
	// Try maps a saved reply, and gives what the page shows, for JSON.
	Try func(context.Context, TryRequest) (any, error)
	// Answers says what other mappings would make of the replies that are kept.
	Answers func(context.Context, AnswersRequest) (AnswersDiff, error)
	// Sample asks the legacy system as the running configuration says, once for the list
	// and for its first records, and gives the bodies of the replies. It is asked for by whoever has the token only.
	Sample func(context.Context, SampleRequest) (Sample, error)
}

// routes adds the paths of the playground.
func (t *Trial) routes(mux *http.ServeMux, sessions *Sessions) {
	one := make(chan struct{}, 1)
	mux.HandleFunc("GET /ops/mapping", func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Query().Get("kind")
		if kind != "buyer" && kind != "seller" {
			http.Error(w, "kind must be buyer or seller", http.StatusBadRequest)
			return
		}
		answer(w, http.StatusOK, map[string]string{"mapping": t.Mapping(kind)})
	})
	mux.HandleFunc("POST /ops/try", func(w http.ResponseWriter, r *http.Request) {
		var want TryRequest
		tried(w, r, one, &want, func(ctx context.Context) (any, error) {
			return t.Try(ctx, want)
		}, func() error { return subject(want.Kind, want.Account) })
	})
	mux.HandleFunc("POST /ops/answers", func(w http.ResponseWriter, r *http.Request) {
		var want AnswersRequest
		tried(w, r, one, &want, func(ctx context.Context) (any, error) { return t.Answers(ctx, want) }, func() error { return nil })
	})
	mux.HandleFunc("POST /ops/sample", func(w http.ResponseWriter, r *http.Request) {
		if !sessions.Guarded() {
			http.Error(w, "a real reply is for those who have the token; set ops.token_file and sign in, or paste a saved reply", http.StatusForbidden)
			return
		}
		var want SampleRequest
		tried(w, r, one, &want, func(ctx context.Context) (any, error) {
			return t.Sample(ctx, want)
		}, func() error { return subject(want.Kind, want.Account) })
	})
}

// subject checks whose list is meant.
func subject(kind, account string) error {
	switch {
	case kind != "buyer" && kind != "seller":
		return errors.New("kind must be buyer or seller")
	case account == "" || len(account) > maxExplainValue:
		return fmt.Errorf("account wants 1 to %d bytes", maxExplainValue)
	}
	return nil
}

// tried reads the body into want, and runs do when nothing else runs.
func tried(w http.ResponseWriter, r *http.Request, one chan struct{}, want any, do func(context.Context) (any, error), check func() error) {
	ctx, cancel := context.WithTimeout(r.Context(), tryTimeout)
	defer cancel()
	if !read(w, r, maxTryBytes, want, "send JSON; of a long reply a part is enough") {
		return
	}
	if err := check(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case one <- struct{}{}:
		defer func() { <-one }()
	case <-ctx.Done():
		http.Error(w, "another mapping is being tried; try again", http.StatusServiceUnavailable)
		return
	}
	result, err := do(ctx)
	switch {
	case errors.Is(err, ErrTry):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		answer(w, http.StatusOK, result)
	}
}
