package canary

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func askAt(t *testing.T, at Target) (*answer, error) {
	t.Helper()
	client := &http.Client{Transport: at.Transport}
	t.Cleanup(client.CloseIdleConnections)
	return caller{client: client, url: at.URL, agent: "test", timeout: 5 * time.Second}.ask(t.Context(), question{list: "buyer", key: "k", status: "a b"})
}

func TestDialReachesAListenerOnAllAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Seen", r.URL.String()+" "+r.Header.Get("Authorization")+" "+fmt.Sprint(r.Header["Accept-Encoding"]))
		})}}
		server.Start()
		a, err := askAt(t, Dial(l.Addr(), nil))
		if err != nil || a.code != http.StatusOK || a.header.Get("X-Seen") != "/api/v1/buyer/inquiries?status=a+b Bearer k []" {
			t.Errorf("%s: %+v %v", address, a, err)
		}
		server.Close()
	}
	if hosts, port := hostsOf(&net.TCPAddr{IP: net.IPv6unspecified, Port: 80}); strings.Join(hosts, " ") != "127.0.0.1 ::1" || port != "80" {
		t.Errorf("%v %s", hosts, port)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err := askAt(t, Dial(gone.Addr(), nil)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %+v %v", a, err)
	}
}

// The certificate is the identity: neither a name nor an issuer is asked for, and
// nobody else gets a key.
func TestDialBelievesOneCertificate(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	own := server.Certificate().Raw
	a, err := askAt(t, Dial(server.Listener.Addr(), own))
	if err != nil || a.code != http.StatusOK || asked.Load() != 1 {
		t.Fatalf("%+v %v", a, err)
	}
	other := append([]byte(nil), own...)
	other[len(other)-1] ^= 1
	if a, err := askAt(t, Dial(server.Listener.Addr(), other)); !errors.Is(err, errOtherCertificate) || asked.Load() != 1 {
		t.Errorf("%+v %v, asked %d times", a, err, asked.Load())
	}
	if err := pinned(own).VerifyConnection(tls.ConnectionState{}); !errors.Is(err, errOtherCertificate) {
		t.Errorf("no certificate: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s := newStand(t, nil)
	s.fake.change = list(func(_ *http.Request, a *fakeAnswer) { a.code = 302; a.header.Set("Location", "http://elsewhere.test/") })
	ctx, cancel := context.WithCancel(t.Context())
	s.opts.Owner = func(_ context.Context, kind string, key Secret) (Owner, error) {
		if kind == "seller" {
			cancel() // one round of buyers is enough
		}
		return Owner{Account: string(key)}, nil
	}
	s.Run(ctx, Target{URL: "http://gateway.test", Transport: s.fake})
	if !strings.Contains(s.log.String(), "is good, and answered 302") {
		t.Errorf("logged %s", s.log)
	}
}
