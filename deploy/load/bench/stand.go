package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hitRecords is how many records a list of about 10 KB has.
const hitRecords = 26

// stand is everything that runs: the servers under load and what they need.
type stand struct {
	dir     string
	crew    *crew
	fixture *fixture
	client  *http.Client

	bodies map[string]string // raw query to what every hit answers with
	etags  map[string]string

	backend, origin *process // the legacy's replies; finished bytes for peers
	bare            *process
	bareCopies      *process // with a body of its own for each list
	bareTLS         string   // address
	redis           *process
}

func (s *stand) bin(name string) string { return filepath.Join(s.dir, "bin", name) }

// needed are the programs that nothing can be measured without, and the Debian
// packages that have them.
func needed() map[string]string {
	return map[string]string{"wrk": "wrk", "h2load": "nghttp2-client", "redis-server": "redis-server", "go": "golang"}
}

func checkPrograms() error {
	var errs []error
	for program, pkg := range needed() {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is not installed; Debian has it in the package %s", program, pkg))
		}
	}
	return errors.Join(errs...)
}

// build compiles the programs as a release is compiled.
func (s *stand) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", s.bin("")+"/",
		"./cmd/inquiry-gateway", "./deploy/load/bare", "./deploy/load/backend")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: run this in the repository's top folder: %s", err, output)
	}
	return nil
}

// newStand starts what every row needs: the backend and one gateway to take the
// bytes from, then the servers that write the same bytes.
func newStand(ctx context.Context, dir string, keys int) (*stand, error) {
	f, err := newFixture(dir, keys)
	if err != nil {
		return nil, err
	}
	s := &stand{dir: dir, crew: &crew{dir: dir}, fixture: f, client: newClient(warmers), bodies: map[string]string{}, etags: map[string]string{}}
	return s, errors.Join(os.MkdirAll(s.bin(""), 0o700), s.build(ctx))
}

func (s *stand) startBackend(ctx context.Context) error {
	var err error
	s.backend, err = s.startSimple(ctx, "backend", "backend")
	return err
}

// startSimple runs one of the small programs on a free address.
func (s *stand) startSimple(ctx context.Context, name, program string, args ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, addr: addr}
	return p, s.crew.start(ctx, p, s.bin(program), append([]string{"-listen", addr}, args...)...)
}

func (s *stand) startRedis(ctx context.Context) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	s.redis = &process{name: "redis", addr: addr}
	port := addr[strings.LastIndexByte(addr, ':')+1:]
	return s.crew.start(ctx, s.redis, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
}

// learnBodies takes the four bodies from a gateway: accounts differ in their
// name only, which is in no record, so all accounts have the same ones.
func (s *stand) learnBodies(ctx context.Context, gateway string) error {
	for _, query := range filters() {
		for _, key := range []string{s.fixture.keys[0], s.fixture.keys[len(s.fixture.keys)-1]} {
			response, body, err := s.get(ctx, "http://"+gateway+target(query), key)
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the gateway answers %s: %s", response.Status, body)
			}
			if known, ok := s.bodies[query]; ok && known != string(body) {
				return fmt.Errorf("two accounts have different lists for %q", query)
			}
			s.bodies[query], s.etags[query] = string(body), response.Header.Get("ETag")
		}
	}
	text, err := json.Marshal(s.bodies)
	if err != nil {
		return err
	}
	return os.WriteFile(s.fixture.path("bodies.json"), text, 0o600)
}

// startBare runs the bare handler twice: with four bodies that are always in
// the processor's caches, and with a copy for each list, which cost what memory
// costs, as lists in a cache do.
func (s *stand) startBare(ctx context.Context) error {
	addrs, err := freeAddrs(3)
	if err != nil {
		return err
	}
	s.bareTLS = addrs[0]
	bodies := s.fixture.path("bodies.json")
	s.bare, err = s.startSimple(ctx, "bare", "bare", "-bodies", bodies, "-control", addrs[1],
		"-tls-listen", s.bareTLS, "-cert", s.fixture.path("cert.pem"), "-key", s.fixture.path("key.pem"))
	if err != nil {
		return err
	}
	s.bareCopies, err = s.startSimple(ctx, "bare-copies", "bare", "-bodies", bodies, "-control", addrs[2], "-keys", s.fixture.path("accounts.json"))
	if err != nil {
		return err
	}
	s.bare.ops, s.bareCopies.ops = addrs[1], addrs[2]
	return nil
}

// sameBytes holds a server's answers against the gateway's.
func (s *stand) sameBytes(ctx context.Context, base string) error {
	for query, want := range s.bodies {
		response, body, err := s.get(ctx, base+target(query), s.fixture.keys[0])
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK || !bytes.Equal(body, []byte(want)) {
			return fmt.Errorf("%s%s answers %s with %d bytes, not the %d bytes of the others", base, target(query), response.Status, len(body), len(want))
		}
	}
	return nil
}

// meanBody is the mean size of the bodies of a hit.
func (s *stand) meanBody() float64 {
	sum := 0
	for _, body := range s.bodies {
		sum += len(body)
	}
	return float64(sum) / float64(len(s.bodies))
}
