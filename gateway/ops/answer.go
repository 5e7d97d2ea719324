package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// PurgeRequest is the body of POST /ops/purge: whose lists to purge.
type PurgeRequest struct {
	Accounts      []string `json:"accounts,omitempty"`
	AccountHashes []string `json:"account_hashes,omitempty"` // as in the keys of Redis
	Kinds         []string `json:"kinds,omitempty"`          // all lists of buyers, or all of sellers
	Soft          bool     `json:"soft,omitempty"`           // their ttl ends, and they may be served stale
}

// PurgeReply is the answer to a purge.
type PurgeReply struct {
	Purged int `json:"purged"` // accounts and kinds
	// Reached is who knows: fleet, or without Redis node.
	Reached string `json:"reached"`
}

// What a purge can reach where it ends well.
const (
	ReachedFleet = "fleet"
	ReachedNode  = "node"
)

// Errors that the functions of Options wrap; any other one is answered with 502.
var (
	// ErrPurge is for a purge that cannot be meant.
	ErrPurge error = refusal{http.StatusBadRequest, "cannot be purged"}
	// ErrNoSuchList is for a kind of which the gateway has no list.
	ErrNoSuchList error = refusal{http.StatusNotFound, "there is no such list"}
	// ErrNothingToExplain is for a key that does not exist.
	ErrNothingToExplain error = refusal{http.StatusNotFound, "there is nothing to explain"}
	// ErrCannotExplain is for a question that a part cannot answer.
	ErrCannotExplain error = refusal{http.StatusNotImplemented, "this cannot be explained"}
)

// refusal is an error with the status that it is answered with.
type refusal struct {
	status int
	text   string
}

func (e refusal) Error() string { return e.text }

// badRequest is a refusal for what the caller has sent.
func badRequest(format string, args ...any) error {
	return refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// readJSON parses a body of at most limit bytes as one JSON value. hint says what to send instead of one that cannot
// be parsed. Its errors are refusals.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any, hint string) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err == nil {
		return nil
	}
	if e, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("%s: the body has more than %d KiB", hint, e.Limit>>10)}
	}
	return badRequest("%s: %v", hint, err)
}

// writeResult responds with v, or with err. An error that wraps no refusal is the fault of
// something behind the gateway, 502.
func writeResult(w http.ResponseWriter, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
		return
	}
	status := http.StatusBadGateway
	if e, ok := errors.AsType[refusal](err); ok {
		status = e.status
	}
	http.Error(w, err.Error(), status)
}

// writeJSON writes v as JSON.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a caller that left; nobody to tell
}

// writeText writes a text.
func writeText(w http.ResponseWriter, contentType, text string) {
	w.Header().Set("Content-Type", contentType)
	_, _ = io.WriteString(w, text) // a caller that left; nobody to tell
}
