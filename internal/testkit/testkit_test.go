package testkit_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStopEndsTheProcess(t *testing.T) {
	dir := t.TempDir()
	addr, err := testkit.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	args, err := testkit.RedisArgs(addr, dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := testkit.Start(t.Context(), testkit.Program{Name: "redis", Path: "redis-server", Args: args, Addr: addr, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second Stop does nothing
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if conn, err := net.Dial("tcp", p.Addr); err == nil {
		_ = conn.Close()
		t.Error("it still takes connections")
	}
	if log, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(log), "Ready to accept connections") {
		t.Errorf("the log has %q, %v", log, err)
	}
}

func TestStartShowsWhatAFailedProgramPrinted(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho bad configuration >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	addr, err := testkit.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, err = testkit.Start(t.Context(), testkit.Program{Name: "x", Path: program, Addr: addr, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "bad configuration") {
		t.Errorf("the error is %v", err)
	}
	if _, err := testkit.Start(t.Context(), testkit.Program{Name: "x", Path: filepath.Join(dir, "absent"), Addr: addr, Dir: dir}); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func TestIssuedCertificatesServeBothEnds(t *testing.T) {
	a, err := testkit.NewAuthority("test CA")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := a.Issue("someone")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM)
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	serverEnd := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})
	done := make(chan error, 1)
	go func() { done <- serverEnd.Handshake() }()
	clientEnd := tls.Client(client, &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "127.0.0.1"})
	if err := clientEnd.Handshake(); err != nil {
		t.Errorf("client: %v", err)
	}
	// The server's handshake ends when its last message is read.
	go func() { _, _ = clientEnd.Read(make([]byte, 1)) }()
	if err := <-done; err != nil {
		t.Errorf("server: %v", err)
	}
}
