//go:build real

package real

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// exchange is a system's reply. .ci/compare replays it: see internal/conformance.
type exchange struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Reply  string      `json:"reply"`
}

// recorder is a proxy in front of a system that keeps each request's first successful reply, or its last.
type recorder struct {
	*httptest.Server
	mu  sync.Mutex
	all map[string]exchange // by method, path and query, and body
}

func newRecorder(t *testing.T, s *system) *recorder {
	r := &recorder{all: map[string]exchange{}}
	_, port := s.hostPort()
	// In recordings the system's address is {legacy}, and the cookie that is named by its port is called as in the example.
	neutral := strings.NewReplacer("http://"+s.addr, "{legacy}", "_support."+port, "_support.443")
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.URL.Scheme, req.URL.Host, req.Host, req.RequestURI = "http", s.addr, s.addr, ""
		req.Header.Del("Accept-Encoding") // replies are kept without a coding
		req.Body = io.NopCloser(bytes.NewReader(asked))
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		e := exchange{Status: res.StatusCode, Header: http.Header{}, Reply: neutral.Replace(string(text))}
		for name, values := range res.Header {
			for _, v := range values {
				if name != "Date" && name != "Content-Length" {
					e.Header.Add(name, neutral.Replace(v))
					w.Header().Add(name, strings.ReplaceAll(v, "http://"+s.addr, r.URL))
				}
			}
		}
		key := req.Method + " " + req.URL.Path + "?" + req.URL.Query().Encode() + "\n" + string(asked)
		r.mu.Lock()
		if r.all[key].Status/100 != 2 {
			r.all[key] = e
		}
		r.mu.Unlock()
		w.WriteHeader(res.StatusCode)
		_, _ = io.WriteString(w, strings.ReplaceAll(string(text), "http://"+s.addr, r.URL)) // an error: the gateway has gone
	}))
	t.Cleanup(r.Close)
	return r
}

// save writes what was recorded, for an example.
func (r *recorder) save(t *testing.T, folder, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := errors.Join(json.NewEncoder(z).Encode(r.all), z.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, strings.TrimSuffix(example, ".yaml")+".json.gz")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d replies in %d bytes", file, len(r.all), buf.Len())
}
