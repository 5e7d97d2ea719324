package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// Files are the paths of PEM files.
type Files struct{ CA, Cert, Key string }

// StartTLS runs a redis-server that speaks TLS only and wants a certificate of
// its clients. The files serve both ends.
func StartTLS(t testing.TB, args ...string) (*Server, Files) {
	t.Helper()
	f := makeFiles(t)
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(f.CA)
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("read the CA: %v", err)
	}
	s := &Server{
		bin: "redis-server",
		tls: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		args: append(append(inMemory(), "--tls-cert-file", f.Cert, "--tls-key-file", f.Key,
			"--tls-ca-cert-file", f.CA, "--tls-auth-clients", "yes"), args...),
	}
	return start(t, s), f
}

// makeFiles writes an authority and one certificate of it for 127.0.0.1.
func makeFiles(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	authority, err := testkit.NewAuthority("test CA")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue("redis")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{f.CA: authority.PEM, f.Cert: cert, f.Key: key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}
