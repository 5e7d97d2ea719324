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
	dir := t.TempDir()
	testkit.Certificate(t, dir, "redis")
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
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
