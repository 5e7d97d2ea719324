package ops

import (
	"context"
	"fmt"
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
// A purge that fewer replicas have than wanted is no success: it is in force, and
// a fail-over of Redis can lose it.
type PurgeReply struct {
	Epoch    uint64 `json:"epoch"`
	Replicas int    `json:"replicas,omitempty"`        // of Redis that have it; counted only where some are wanted
	Wanted   int    `json:"wanted_replicas,omitempty"` // redis.min_replicas
}

// purge drops cached lists over the fleet.
func purge(do func(ctx context.Context, kind, account string) (PurgeReply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body PurgeRequest
		if !read(w, r, maxControlBytes, &body, `send JSON such as {"account":"acme"} or {"kind":"buyer"}`) {
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
		reply, err := do(r.Context(), body.Kind, body.Account)
		if err != nil {
			http.Error(w, PurgeFailed(reply, err), http.StatusBadGateway)
			return
		}
		answer(w, http.StatusOK, reply)
	}
}

// PurgeFailed says what a purge that failed has reached, and what to do.
func PurgeFailed(reply PurgeReply, err error) string {
	if reply.Epoch == 0 {
		return "purged on this node only; repeat it when Redis is back: " + err.Error()
	}
	if reply.Replicas < reply.Wanted {
		return fmt.Sprintf("purged on all nodes, but only %d of %d wanted replicas of Redis have it, so that a fail-over can lose it; repeat it when the replicas are back: %v",
			reply.Replicas, reply.Wanted, err)
	}
	return "purged, but not all nodes may know at once; repeat it: " + err.Error()
}
