package ops

import (
	"context"
	"errors"
	"net/http"
)

// maxChangedBytes bounds the body of POST /ops/changed: a thousand ids.
const maxChangedBytes = 128 << 10

// ErrChanged is an error of Options.Changed that is the caller's, 400.
var ErrChanged = errors.New("cannot be marked")

// ChangedRequest is the body of POST /ops/changed: whose lists have changed at the
// legacy system.
type ChangedRequest struct {
	Accounts      []string `json:"accounts,omitempty"`
	AccountHashes []string `json:"account_hashes,omitempty"` // as in the keys of Redis
	Records       []string `json:"records,omitempty"`        // internal ids
	RecordHashes  []string `json:"record_hashes,omitempty"`  // HMAC-SHA-256 of these, in hex
	Kinds         []string `json:"kinds,omitempty"`          // all lists of buyers, or all of sellers
	Hard          bool     `json:"hard,omitempty"`           // not to be served any more, not even for a moment
}

// ChangedReply tells how many accounts and kinds are marked. Other nodes may find more
// accounts by the records.
type ChangedReply struct {
	Marked int `json:"marked"`
}

// changed marks lists as changed over the fleet.
func changed(do func(context.Context, ChangedRequest) (ChangedReply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body ChangedRequest
		if !read(w, r, maxChangedBytes, &body, `send JSON such as {"accounts":["acme"]} or {"accounts":["acme"],"hard":true}, and many in several requests`) {
			return
		}
		reply, err := do(r.Context(), body)
		switch {
		case errors.Is(err, ErrChanged):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, "not all is marked; repeat it: "+err.Error(), http.StatusBadGateway)
		default:
			answer(w, http.StatusOK, reply)
		}
	}
}
