package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/internal/invalid"
)

// TLSConfig is for a legacy system behind a private CA or one that asks for a
// client certificate. The files are read again when they change; while they
// cannot be used the last good ones stay. Empty: the machine's roots, no
// certificate. They count for the token endpoint of auth, too, so ca_file must
// hold its authority besides where that is another one.
type TLSConfig struct {
	CAFile   string `yaml:"ca_file"`   // PEM; the only roots that are believed
	CertFile string `yaml:"cert_file"` // PEM; with key_file
	KeyFile  string `yaml:"key_file"`
}

// check reports files that could not have an effect.
func (t TLSConfig) check(baseURL string, p *invalid.Problems) {
	switch {
	case t == TLSConfig{}:
	case strings.HasPrefix(strings.ToLower(baseURL), "http:"):
		p.Add("tls", "base_url is plain http, so the files would not be used; change base_url or empty them")
	case t.CertFile != "" && t.KeyFile == "":
		p.Add("tls.key_file", "missing: the key of cert_file")
	case t.KeyFile != "" && t.CertFile == "":
		p.Add("tls.cert_file", "missing: the certificate of key_file")
	}
}

// load reads the files.
func (t TLSConfig) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile)
		if err != nil {
			return nil, mistake("tls.ca_file", "%v", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, mistake("tls.ca_file", "the file holds no certificate in PEM form")
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, mistake("tls.cert_file", "certificate and key cannot be used: %v", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// readFile reads a file of at most 1 MiB.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, 1<<20+1))
	if err == nil && len(b) > 1<<20 {
		err = errors.New("more than 1 MiB")
	}
	return b, err
}

// stamps gives the versions of all files together.
func (t TLSConfig) stamps() []stamp {
	var list []stamp
	for _, path := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		if path == "" {
			continue
		}
		s, _ := stampOf(path) // a missing file has a stamp of its own: zero
		list = append(list, s)
	}
	return list
}

// transport is an http.RoundTripper whose TLS files may change under it. It is
// safe for concurrent use.
type transport struct {
	files TLSConfig
	base  *http.Transport // cloned for every version of the files
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	current *http.Transport
	version []stamp
	checked time.Time
}

// newTransport reads the files once, so that wrong ones are known at start.
func newTransport(base *http.Transport, files TLSConfig, opts Options) (*transport, error) {
	t := &transport{files: files, base: base, now: opts.Now, log: opts.Logger, current: base}
	if files == (TLSConfig{}) {
		return t, nil
	}
	t.version, t.checked = files.stamps(), opts.Now()
	cfg, err := files.load()
	if err != nil {
		return nil, err
	}
	t.current = base.Clone()
	t.current.TLSClientConfig = cfg
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.use().RoundTrip(r)
}

// CloseIdleConnections is what http.Client looks for.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.CloseIdleConnections()
}

// use gives the transport for the files as they are now. Requests that are
// under way keep the old one.
func (t *transport) use() *http.Transport {
	if t.files == (TLSConfig{}) {
		return t.base
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.checked) >= fileCheck {
		t.checked = now
		t.reload()
	}
	return t.current
}

// reload makes a new transport if a file has changed. Files are written one
// after the other, so a pair may not fit for a moment: then the old ones
// stay, and the next change is tried.
func (t *transport) reload() {
	version := t.files.stamps()
	if slices.Equal(version, t.version) {
		return
	}
	t.version = version
	cfg, err := t.files.load()
	if err != nil {
		t.log.Error("changed TLS files cannot be used, the old ones stay", "err", err)
		return
	}
	old := t.current
	t.current = t.base.Clone()
	t.current.TLSClientConfig = cfg
	old.CloseIdleConnections()
	t.log.Info("TLS files for the legacy reloaded")
}
