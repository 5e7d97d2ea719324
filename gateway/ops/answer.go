package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// post makes the handler of a POST: it reads a body of at most limit bytes as JSON,
// checks it, and answers with what do gives. hint says what to send instead of a body
// that cannot be read.
func post[Q, R any](limit int64, hint string, check func(Q) error, do func(context.Context, Q) (R, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		var reply R
		err := read(http.MaxBytesReader(w, r.Body, limit), &q, hint)
		if err == nil {
			err = check(q)
		}
		if err == nil {
			reply, err = do(r.Context(), q)
		}
		respond(w, reply, err)
	}
}

// read takes a body as one JSON value. Its errors are refusals.
func read(body io.Reader, into any, hint string) error {
	d := json.NewDecoder(body)
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
	return mistake("%s: %v", hint, err)
}

// Errors that the functions of Options wrap; any other one is answered with 502.
var (
	// ErrChanged is for hints of Options.Changed that say nothing.
	ErrChanged error = refusal{http.StatusBadRequest, "cannot be marked"}
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

// mistake is a refusal for what the caller has sent.
func mistake(format string, args ...any) error {
	return refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func checkKind(kind string) error {
	if kind != "buyer" && kind != "seller" {
		return mistake("kind must be buyer or seller")
	}
	return nil
}

// respond answers with v, or with err. An error that wraps no refusal is the fault of
// something behind the gateway, 502.
func respond(w http.ResponseWriter, v any, err error) {
	if err == nil {
		answer(w, http.StatusOK, v)
		return
	}
	status := http.StatusBadGateway
	if e, ok := errors.AsType[refusal](err); ok {
		status = e.status
	}
	http.Error(w, err.Error(), status)
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
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
