package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// bench is one run and everything that it has started.
type bench struct {
	options
	dir     string // temporary
	keys    []string
	client  *http.Client
	started []*testkit.Process

	legacy       *legacy.Server
	legacyServer *httptest.Server
	hit          *server           // the gateway that hits are measured of
	bodies       map[string]string // query to what every hit answers with
	etags        map[string]string
	bare, redis  *server
	bareTLS      string // URL of bare

	rows []*row
}

// prepare builds the programs as a release is built, and starts the legacy, the
// gateway that hits are measured of, and the bare handler with its bytes.
func (b *bench) prepare(ctx context.Context) {
	b.progress("building")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", b.path("bin")+"/",
		"./cmd/inquiry-gateway", "./deploy/load/bare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		check(fmt.Errorf("go build: %w: run this in the repository's top folder: %s", err, output))
	}
	b.makeFixture()
	b.startLegacy()
	b.hit = b.startNode(ctx, node{Name: "hit", Records: hitRecords})
	b.learnBodies(ctx)
	address := freeAddr()
	b.bareTLS = "https://" + address
	b.bare = b.startBare(ctx, "bare", "-bodies", b.path("bodies.json"), "-tls-listen", address, "-cert", b.path("cert.pem"), "-key", b.path("key.pem"))
}

// learnBodies takes the bodies of a hit from the gateway. Accounts differ in
// their names only, which no record holds, so all have the same bodies.
func (b *bench) learnBodies(ctx context.Context) {
	b.bodies, b.etags = map[string]string{}, map[string]string{}
	for _, f := range filters() {
		for _, key := range []string{b.keys[0], b.keys[len(b.keys)-1]} {
			got := must(b.get(ctx, b.hit.url+target(f.query), key, "identity"))
			if known, ok := b.bodies[f.query]; ok && known != string(got.body) {
				check(fmt.Errorf("two accounts have different lists for %q", f.query))
			}
			b.bodies[f.query], b.etags[f.query] = string(got.body), got.header.Get("ETag")
		}
	}
	b.writeJSON("bodies.json", b.bodies)
}

// meanBody is the mean size of the bodies of a hit.
func (b *bench) meanBody() float64 {
	sum := 0
	for _, body := range b.bodies {
		sum += len(body)
	}
	return float64(sum) / float64(len(b.bodies))
}

// run measures everything and writes the results.
func (b *bench) run(ctx context.Context) {
	b.progress("starting servers and filling caches")
	b.startRedis(ctx)
	b.addHits(ctx)
	b.addRedisHit(ctx)
	b.addPeers(ctx)
	b.addProtocols(ctx)
	b.addMisses(ctx)
	if b.only != nil {
		b.rows = slices.DeleteFunc(b.rows, func(r *row) bool { return !b.only.MatchString(r.Name) })
	}
	if b.profile != "" {
		b.writeProfile(ctx)
		return
	}
	b.measureAll(ctx)
	run := report.Run{
		Machine: report.ThisMachine(time.Now()), Quick: b.quick, Rounds: b.rounds, Seconds: b.duration.Seconds(),
		Keys: len(b.keys), Bytes: b.meanBody(),
	}
	for _, r := range b.rows {
		run.Rows = append(run.Rows, r.Row)
	}
	if b.growth {
		run.Growth = b.growthTables(ctx)
	}
	b.progress("writing to %s", b.out)
	writeResults(b.out, run)
}

// writeResults leaves the page and the samples in a folder.
func writeResults(folder string, run report.Run) {
	check(os.MkdirAll(folder, 0o755))
	page := must(os.Create(filepath.Join(folder, "RESULTS.md")))
	check(report.Markdown(page, run), page.Close())
	text := must(json.MarshalIndent(run, "", "  "))
	check(os.WriteFile(filepath.Join(folder, "results.json"), append(text, '\n'), 0o644))
}

// writeProfile writes a CPU profile of the first of the gateways' rows under its load.
func (b *bench) writeProfile(ctx context.Context) {
	i := slices.IndexFunc(b.rows, func(r *row) bool { return r.counted != lookup{} })
	if i < 0 {
		check(fmt.Errorf("no row of the gateway matches %s", b.only))
	}
	r := b.rows[i]
	load := must(r.generator(r.plan))
	b.progress("profiling %q", r.Name)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		l, err := load(ctx, b.duration+2*time.Second)
		return errors.Join(err, l.Check())
	})
	group.Go(func() error {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", r.server.ops, int(b.duration/time.Second))
		profile, err := b.get(ctx, url, "", "identity")
		if err != nil {
			return err
		}
		return os.WriteFile(b.profile, profile.body, 0o644)
	})
	check(group.Wait())
}
