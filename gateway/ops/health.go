package ops

import (
	"encoding/json"
	"net/http"
)

// Readiness is what /readyz answers.
type Readiness struct {
	// Status is ready, degraded (serving, but a part is away) or draining.
	Status string `json:"status"`
	// Parts tells the state of each part by name.
	Parts map[string]string `json:"parts,omitempty"`
}

// The states of Readiness.
const (
	StatusReady    = "ready"
	StatusDegraded = "degraded"
	StatusDraining = "draining"
)

// livez answers as long as the process can answer at all. It asks no part: a
// restart cures neither Redis nor the legacy system.
func livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // the prober left; nobody to tell
}

// readyz is 200 while requests are welcome, degraded included, and 503 while
// the process drains.
func readyz(ready func() Readiness) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		state := ready()
		body, err := json.Marshal(state)
		if err != nil {
			http.Error(w, "readiness cannot be told", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if state.Status == StatusDraining {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(append(body, '\n')) // the prober left; nobody to tell
	})
}
