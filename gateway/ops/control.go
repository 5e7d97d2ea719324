package ops

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxControlBytes bounds the body of a request that changes something.
const maxControlBytes = 4 << 10

// PurgeRequest is the body of POST /ops/purge: exactly one of the two is set.
type PurgeRequest struct {
	Kind    string `json:"kind,omitempty"`    // all lists of buyers, or all of sellers
	Account string `json:"account,omitempty"` // all lists of one account
}

// PurgeReply tells the new epoch; lists of an older one are not served any more.
type PurgeReply struct {
	Epoch uint64 `json:"epoch"`
}

// purge drops cached lists over the fleet.
func purge(do func(ctx context.Context, kind, account string) (uint64, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body PurgeRequest
		if err := decode(r, &body); err != nil {
			http.Error(w, "send JSON such as {\"account\":\"acme\"} or {\"kind\":\"buyer\"}: "+err.Error(), http.StatusBadRequest)
			return
		}
		if (body.Kind == "") == (body.Account == "") {
			http.Error(w, "send either kind or account", http.StatusBadRequest)
			return
		}
		if body.Kind != "" && body.Kind != "buyer" && body.Kind != "seller" {
			http.Error(w, "kind must be buyer or seller", http.StatusBadRequest)
			return
		}
		epoch, err := do(r.Context(), body.Kind, body.Account)
		if err != nil {
			http.Error(w, "purged on this node only; repeat it when Redis is back: "+err.Error(), http.StatusBadGateway)
			return
		}
		answer(w, PurgeReply{Epoch: epoch})
	}
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxControlBytes))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // a caller that left; nobody to tell
}
