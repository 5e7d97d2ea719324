package conformance

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

func TestMain(m *testing.M) {
	if flag.Parse(); flag.NArg() == 0 {
		goleak.VerifyTestMain(m)
	}
	m.Run()
	os.Exit(2) // else TestCompare has ended the process
}

// tightAccounts is how many times a case may ask as an account that has used nothing of
// its rate yet.
const tightAccounts = 60

// server is what conversations are held with.
type server struct {
	address string
	secure  bool
	keys    map[string]string // by id
	tight   *atomic.Int64     // of the accounts with a low rate, how many are used up
	etag    string            // of the buyer's list, without W/
	ops     string
}

func (s server) dial() (net.Conn, error) {
	if s.secure {
		return tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	}
	return net.Dial("tcp", s.address)
}

// filler puts this server's keys into one conversation.
func (s server) filler() *strings.Replacer {
	pairs := []string{"$etag", s.etag, "{tight}", s.keys[fmt.Sprint("tight-", s.tight.Add(1)%tightAccounts)]}
	for id, key := range s.keys {
		pairs = append(pairs, "{"+id+"}", key)
	}
	return strings.NewReplacer(pairs...)
}

// startServers starts the whole gateway once for each mode, in front of one legacy system.
func startServers(t *testing.T) map[mode]server {
	system := httptest.NewServer(legacy.New(legacy.Options{}))
	t.Cleanup(system.Close)
	all := map[mode]server{}
	for _, m := range modes {
		if m.pieces == 1 {
			all[m] = startGateway(t, m, system.URL)
		}
	}
	return all
}

func startGateway(t *testing.T, m mode, upstream string) server {
	dir, keys := t.TempDir(), map[string]string{}
	text := `listen: 127.0.0.1:0
ops: {listen: 127.0.0.1:0}
auth: {keys_file: keys.yaml}
shutdown_delay: 0s
request_timeout: 1m
cache: {buyer: {ttl: 1h}, seller: {ttl: 1ns, stale_while_revalidate: 0s}}
rate_limit: {plans: {tight: {per_second: 0.01, burst: 2}}}
`
	if !m.fast {
		text += "gateway: {fast_path: 'off'}\n"
	}
	if m.secure {
		testkit.Certificate(t, dir, "gateway")
		text += "tls: {cert_file: cert.pem, key_file: key.pem}\n"
	}
	text += gatewaytest.Mapping(upstream, "timeout: 2s", "timeout: 1m")
	for name, content := range map[string]string{"keys.yaml": gatewaytest.KeysFile(t, callers(), keys), "gateway.yaml": text} {
		testkit.Write(t, filepath.Join(dir, name), content)
	}
	a, _ := gatewaytest.Run(t, filepath.Join(dir, "gateway.yaml"), app.Options{Logger: slog.New(slog.DiscardHandler), Requests: io.Discard, Version: "test"})
	_, address, _ := strings.Cut(a.URL(), "://")
	s := server{
		address: address, secure: m.secure, keys: keys, tight: new(atomic.Int64), ops: a.OpsURL(),
	}
	if first := s.store(t); first.StatusCode != http.StatusOK {
		t.Fatal(first)
	}
	return s
}

// store has the server store the buyer's list, and remembers its entity tag.
func (s *server) store(t *testing.T) answer {
	first := testCase{pieces: []string{expand("$get\r\n\r\n")}, want: make([]expected, 1)}
	answers, _, err := hold(*s, first, mode{pieces: 1})
	if err != nil {
		t.Fatal(answers, err)
	}
	s.etag = strings.TrimPrefix(answers[0].Header.Get("Etag"), "W/")
	return answers[0]
}

// callers are one for each way to be answered.
func callers() []gatewaytest.Caller {
	const buyer = legacy.KindBuyer
	all := append(gatewaytest.Refused(), gatewaytest.Paid(buyer, "buyer", legacy.BuyerTypical),
		gatewaytest.Paid(buyer, "empty", legacy.BuyerEmpty), gatewaytest.Paid(legacy.KindSeller, "seller", legacy.SellerTypical))
	for i := range tightAccounts {
		tight := gatewaytest.Paid(buyer, fmt.Sprint("tight-", i), fmt.Sprint("tight-", i))
		tight.Account.Plan = "tight"
		all = append(all, tight)
	}
	return all
}
