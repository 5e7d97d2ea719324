package ops

import "fmt"

const (
	maxPurgeBytes   = 4 << 10   // of the body of POST /ops/purge
	maxChangedBytes = 128 << 10 // of that of POST /ops/changed: a thousand ids
)

// PurgeRequest is the body of POST /ops/purge: exactly one of the two is set.
type PurgeRequest struct {
	Kind    string `json:"kind,omitempty"`    // all lists of buyers, or all of sellers
	Account string `json:"account,omitempty"` // all lists of one account
}

// PurgeReply tells the new epoch; lists of an older one are not served any more.
type PurgeReply struct {
	Epoch uint64 `json:"epoch"`
}

// check is nil for exactly one of the two.
func (q PurgeRequest) check() error {
	switch {
	case (q.Kind == "") == (q.Account == ""):
		return mistake("send either kind or account")
	case q.Kind != "":
		return checkKind(q.Kind)
	}
	return nil
}

// purgeFailed adds to an error what the purge has reached, and what to do.
func purgeFailed(reply PurgeReply, err error) error {
	switch {
	case err == nil:
		return nil
	case reply.Epoch == 0:
		return fmt.Errorf("purged on this node only; repeat it when Redis is back: %w", err)
	}
	return fmt.Errorf("purged, but not all nodes may know at once; repeat it: %w", err)
}

// ChangedRequest is the body of POST /ops/changed: whose lists have changed at the
// legacy system.
type ChangedRequest struct {
	Accounts      []string `json:"accounts,omitempty"`
	AccountHashes []string `json:"account_hashes,omitempty"` // as in the keys of Redis
	Kinds         []string `json:"kinds,omitempty"`          // all lists of buyers, or all of sellers
	Hard          bool     `json:"hard,omitempty"`           // not to be served any more, not even for a moment
}

// ChangedReply tells how many accounts and kinds are marked.
type ChangedReply struct {
	Marked int `json:"marked"`
}
