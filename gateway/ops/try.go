package ops

import (
	"context"
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

// AnswersRequest is the body of POST /ops/answers: mappings that do not run, to be tried
// on the replies that the running gateway keeps.
type AnswersRequest struct {
	Buyer  string `json:"buyer"` // what stands below upstream.buyer, as YAML
	Seller string `json:"seller"`
}

// AnswersDiff says what would become of the answers. It has no text of any record.
type AnswersDiff struct {
	Answers int           `json:"answers"` // lists whose replies are kept and were tried
	Empty   int           `json:"empty"`   // of these: lists without a record, which say nothing of the fields
	Changed int           `json:"changed"` // of these: with another answer
	Fields  []FieldChange `json:"fields"`  // by kind and field
	Load    []LoadChange  `json:"load"`    // by kind
}

// FieldChange is a public field that would differ. Field "records" is their number,
// "error" a list where there was none or the other way round.
type FieldChange struct {
	Kind     string          `json:"kind"`
	Field    string          `json:"field"`
	Answers  int             `json:"answers"`
	Values   int             `json:"values"`
	Examples []ExampleChange `json:"examples"` // different ones, the first three
}

// ExampleChange has words and times as they are, and of texts the length only.
type ExampleChange struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// LoadChange is the load on the legacy system by a kind.
type LoadChange struct {
	Kind    string  `json:"kind"`
	Lists   int     `json:"lists"`
	Before  float64 `json:"requests_per_list_before"` // pages and further requests, in the mean
	After   float64 `json:"requests_per_list_after"`
	Differ  int     `json:"lists_asked_for_differently"` // with another address, query or body
	Filters Filters `json:"filters_sent"`
}

// Filters says whether the legacy system is sent the two filters.
type Filters struct {
	StatusBefore      bool `json:"status_before"`
	StatusAfter       bool `json:"status_after"`
	InquiryTypeBefore bool `json:"inquiry_type_before"`
	InquiryTypeAfter  bool `json:"inquiry_type_after"`
}

// Differs tells whether anything would be other than it is.
func (d *AnswersDiff) Differs() bool {
	for _, l := range d.Load {
		if l.Differ > 0 || l.Before != l.After || l.Filters.StatusBefore != l.Filters.StatusAfter || l.Filters.InquiryTypeBefore != l.Filters.InquiryTypeAfter {
			return true
		}
	}
	return d.Changed > 0
}

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
func (t Trial) routes(mux *http.ServeMux, sessions *Sessions) {
	one := make(chan struct{}, 1)
	mux.HandleFunc("GET /ops/mapping", func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Query().Get("kind")
		if err := checkKind(kind); err != nil {
			respond(w, nil, err)
			return
		}
		answer(w, http.StatusOK, map[string]string{"mapping": t.Mapping(kind)})
	})
	mux.Handle("POST /ops/try", tried(one, func(q TryRequest) error { return checkSubject(q.Kind, q.Account) }, t.Try))
	mux.Handle("POST /ops/answers", tried(one, func(AnswersRequest) error { return nil }, t.Answers))
	sample := tried(one, func(q SampleRequest) error { return checkSubject(q.Kind, q.Account) }, t.Sample)
	mux.HandleFunc("POST /ops/sample", func(w http.ResponseWriter, r *http.Request) {
		if !sessions.Guarded() {
			http.Error(w, "a real reply is for those who have the token; set ops.token_file and sign in, or paste a saved reply", http.StatusForbidden)
			return
		}
		sample(w, r)
	})
}

// checkSubject checks whose list is meant.
func checkSubject(kind, account string) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	if account == "" || len(account) > maxExplainValue {
		return mistake("account wants 1 to %d bytes", maxExplainValue)
	}
	return nil
}

// tried makes the handler of what is tried: one request at a time has the place in one.
func tried[Q, R any](one chan struct{}, check func(Q) error, do func(context.Context, Q) (R, error)) http.HandlerFunc {
	return post(maxTryBytes, "send JSON; of a long reply a part is enough", check, func(ctx context.Context, q Q) (reply R, err error) {
		ctx, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		select {
		case one <- struct{}{}:
			defer func() { <-one }()
		case <-ctx.Done():
			return reply, refusal{http.StatusServiceUnavailable, "another mapping is being tried; try again"}
		}
		return do(ctx, q)
	})
}
