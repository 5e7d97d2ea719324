package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream/legacy"
)

//go:embed demo.yaml
var demoConfig string

// The demo's legacy system is small: its lists fit on a screen.
const (
	demoBuyers    = 8
	demoInquiries = 64
)

// canaryKeyID is what ids of the canary's keys begin with.
const canaryKeyID = "canary-"

// demoLegacyURL is the address in the mapping that the demo's own replaces.
const demoLegacyURL = "http://127.0.0.1:9300"

// demoCommand shows the whole gateway without any file of the user's own. What it
// writes is in one temporary folder, which is removed at the end.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "run the gateway in front of a sample legacy system, with sample keys; REDIS_URL adds a Redis",
		Flags: legacyFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // it ends with its terminal
			defer stop()
			switch {
			case c.Bool("mapping"):
				_, err := c.Root().Writer.Write(legacy.Mapping())
				return err
			case c.Bool("legacy-only"):
				return serveLegacy(ctx, c)
			}
			dir, err := os.MkdirTemp("", "inquiry-gateway-demo-")
			if err != nil {
				return err
			}
			d := demo{dir: dir, out: c.Root().Writer, errOut: c.Root().ErrWriter, redisURL: os.Getenv("REDIS_URL")}
			return errors.Join(d.run(ctx), os.RemoveAll(dir))
		},
	}
}

// terminal says whether what is written to w is read by a person.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// demo is a whole installation in one process and one temporary folder. All parts are
// those of serve and legacy: what the demo shows is what an installation does.
type demo struct {
	dir         string    // of the configuration, the keys and the secrets
	out, errOut io.Writer // for the welcome; for the log
	redisURL    string    // empty: lists and limits stay in the process
}

// run opens all ports first: their addresses are written into the configuration. Until
// serve takes them over, run closes them on an error.
func (d *demo) run(ctx context.Context) error {
	backend, err := d.listenNear("the legacy system", "127.0.0.1:9300")
	if err != nil {
		return err
	}
	l, err := d.openListeners()
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	callers, err := makeCallers(filepath.Join(d.dir, "keys.yaml"))
	if err == nil {
		err = d.makeCanaryKeys()
	}
	if err == nil {
		err = d.writeConfig(l, backend.Addr().String())
	}
	if err != nil {
		return errors.Join(err, backend.Close(), l.Close())
	}
	return d.serve(ctx, l, backend, callers)
}

// serve runs the gateway as the command serve does, from the file that writeConfig
// made, with the sample legacy system beside it. A failure of either ends both.
func (d *demo) serve(ctx context.Context, l app.Listeners, backend net.Listener, callers []caller) error {
	out := app.NewLogWriter(&shortLog{out: d.errOut, colors: terminal(d.errOut)})
	defer out.Close()
	logger := app.NewLogger(out)
	loaded, err := config.Load(filepath.Join(d.dir, "gateway.yaml"), config.Options{})
	if err != nil {
		return errors.Join(err, backend.Close(), l.Close())
	}
	a, err := app.New(loaded.Config, l, options(logger, out))
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	d.welcome(a, backend, callers)
	if terminal(d.out) && isatty.IsTerminal(os.Stdin.Fd()) {
		go d.repeat(os.Stdin, a, callers)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Run(ctx) })
	// Changing lists show what freshness and revalidation are for.
	system := legacy.New(legacy.Options{Seed: 1, Buyers: demoBuyers, Inquiries: demoInquiries, Latency: 20 * time.Millisecond, ChangeEvery: time.Minute})
	group.Go(func() error {
		return app.Serve(ctx, backend, system, legacyGrace, logger)
	})
	return group.Wait()
}

// listenNear opens the address, or any free port on loopback where that is taken,
// and says so: a demo should run next to whatever else does.
func (d *demo) listenNear(what, address string) (net.Listener, error) {
	l, err := app.Listen(what, address)
	if err == nil {
		return l, nil
	}
	free, freeErr := net.Listen("tcp", "127.0.0.1:0")
	if freeErr != nil {
		return nil, errors.Join(err, freeErr)
	}
	fmt.Fprintf(d.out, "note: %s is taken, so %s listens on %s\n", address, what, free.Addr())
	return free, nil
}

// openListeners opens the two addresses that the README names, where they are free.
func (d *demo) openListeners() (app.Listeners, error) {
	public, err := d.listenNear("the gateway", "127.0.0.1:8080")
	if err != nil {
		return app.Listeners{}, err
	}
	private, err := d.listenNear("the ops listener", "127.0.0.1:9090")
	if err != nil {
		return app.Listeners{}, errors.Join(err, public.Close())
	}
	return app.Listeners{Public: public, Ops: private}, nil
}

// redis is REDIS_URL as a line of the configuration; empty without one. The
// password goes into a file, as a configuration wants it.
func (d *demo) redis() (string, error) {
	if d.redisURL == "" {
		return "", nil
	}
	o, err := redisclient.ParseURL(d.redisURL)
	if err != nil {
		return "", err
	}
	file := ""
	if o.Password != "" {
		file = "redis-password"
		err = os.WriteFile(filepath.Join(d.dir, file), []byte(o.Password), 0o600)
	}
	return fmt.Sprintf("redis: {addrs: [%q], username: %q, password_file: %q, db: %d}\n", o.Addr, o.Username, file, o.DB), err
}

// writeConfig fills in demo.yaml. It is the file that a person may copy and go on
// with, so that nothing is set behind its back.
func (d *demo) writeConfig(l app.Listeners, backend string) error {
	r, err := d.redis()
	if err != nil {
		return err
	}
	upstream := strings.ReplaceAll(string(legacy.Mapping()), demoLegacyURL, "http://"+backend)
	text := strings.NewReplacer("{{listen}}", l.Public.Addr().String(), "{{ops}}", l.Ops.Addr().String(), "{{redis}}\n", r, "{{upstream}}\n", upstream).Replace(demoConfig)
	return errors.Join(
		os.WriteFile(filepath.Join(d.dir, "gateway.yaml"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(d.dir, "config.schema.json"), config.Schema, 0o600), // which gateway.yaml names, for editors
	)
}

// caller is a sample key and what comes of using it.
type caller struct {
	what, kind, key string         // what is for a person; the key is made by addCallers
	record          auth.KeyRecord // id, scopes and end; addCallers sets the rest
	account         auth.Account
}

// makeCallers writes a keys file with one key for each way a request can go, in the order
// in which the welcome shows them.
func makeCallers(file string) ([]caller, error) {
	read := []string{auth.ScopeInquiriesRead}
	paid := func(id string) auth.Account { return auth.Account{ID: id, APIAccess: auth.AccessPaid} }
	callers := []caller{
		{what: "a paying buyer: 200", kind: legacy.KindBuyer, account: paid(legacy.BuyerTypical), record: auth.KeyRecord{ID: "demo-buyer", Scopes: read}},
		{what: "another buyer, who gets another list: 200", kind: legacy.KindBuyer, account: paid(legacy.BuyerOther), record: auth.KeyRecord{ID: "demo-other-buyer", Scopes: read}},
		{what: "a seller: 200", kind: legacy.KindSeller, account: paid(legacy.SellerTypical), record: auth.KeyRecord{ID: "demo-seller", Scopes: read}},
		{what: "a buyer without paid api_access: 403", kind: legacy.KindBuyer, account: auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}, record: auth.KeyRecord{ID: "demo-unpaid", Scopes: read}},
		{what: "a key without the scope inquiries:read: 403", kind: legacy.KindBuyer, account: paid(legacy.BuyerTypical), record: auth.KeyRecord{ID: "demo-no-scope"}},
		{what: "an expired key: 401", kind: legacy.KindBuyer, account: paid(legacy.BuyerTypical), record: auth.KeyRecord{ID: "demo-expired", Scopes: read, ExpiresAt: time.Now().Add(-time.Hour)}},
	}
	return callers, addCallers(file, callers)
}

// addCallers makes their keys and adds them to a keys file, each with its account where
// the file does not have that yet.
func addCallers(file string, callers []caller) error {
	keys := keysfile.NewEditor(file, auth.Hasher{})
	for i := range callers {
		c := &callers[i]
		key, err := auth.Generate(c.kind)
		if err != nil {
			return err
		}
		c.key, c.record.Kind, c.record.Account, c.record.Digest = key, c.kind, c.account.ID, auth.Hasher{}.Hash(key)
		if err := keys.Add(context.Background(), c.record, &c.account); err != nil {
			return err
		}
	}
	return nil
}

// makeCanaryKeys writes the files that demo.yaml names, for two accounts of each kind
// that nobody else has a key of.
func (d *demo) makeCanaryKeys() error {
	var callers []caller
	for kind, accounts := range map[string][2]string{legacy.KindBuyer: {"o'hara&sons", "mueller/soehne"}, legacy.KindSeller: {"nordlicht", "seoul-books"}} {
		for i, account := range accounts {
			callers = append(callers, caller{kind: kind, account: auth.Account{ID: account, APIAccess: auth.AccessPaid},
				record: auth.KeyRecord{ID: fmt.Sprintf(canaryKeyID+"%s-%d", kind, i), Scopes: []string{auth.ScopeInquiriesRead}}})
		}
	}
	if err := addCallers(filepath.Join(d.dir, "keys.yaml"), callers); err != nil {
		return err
	}
	for _, c := range callers {
		if err := os.WriteFile(filepath.Join(d.dir, c.record.ID+".key"), []byte(c.key), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// welcome prints what runs where, and a line to paste for each caller.
func (d *demo) welcome(a *app.App, backend net.Listener, callers []caller) {
	tier := "in the process"
	if d.redisURL != "" {
		tier = "in the process and in the Redis of REDIS_URL"
	}
	fmt.Fprintf(d.out, `
gateway        %s   documentation: %s/docs
ops            %s   the console: open it in a browser
legacy system  http://%s   open it in a browser, too: buttons break it and heal it
lists          cached %s
canary         asks as two buyers and two sellers every 10 s; the console shows what it finds
configuration  %s

`, a.URL(), a.URL(), a.OpsURL(), backend.Addr(), tier, filepath.Join(d.dir, "gateway.yaml"))
	d.lines(a, callers)
	again := ""
	if terminal(d.out) {
		again = "Enter prints these lines again. "
	}
	fmt.Fprintf(d.out, "\n%sCtrl-C stops everything. Your requests, not the canary's, follow.\n\n", again)
}

// lines prints a line to paste for each caller.
func (d *demo) lines(a *app.App, callers []caller) {
	for _, c := range callers {
		fmt.Fprintf(d.out, "# %s\ncurl -i -H 'Authorization: Bearer %s' '%s/api/v1/%s/inquiries'\n", c.what, c.key, a.URL(), c.kind)
	}
	fmt.Fprintf(d.out, "# filtered: 200\ncurl -i -H 'Authorization: Bearer %s' '%s/api/v1/buyer/inquiries?status=pending'\n", callers[0].key, a.URL())
}

// repeat prints the lines again for each line of in, because records of requests push
// them off the screen. It ends with in, or with the process.
func (d *demo) repeat(in io.Reader, a *app.App, callers []caller) {
	for input := bufio.NewScanner(in); input.Scan(); {
		d.lines(a, callers)
	}
}

// legacyGrace is how long lists under way may take when the legacy stops.
const legacyGrace = 2 * time.Second

// legacyFlags are for the legacy system of the tests and the demo alone, so that a fault
// can be tried by hand against a gateway with a configuration of one's own.
func legacyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "legacy-only", Usage: "run the sample legacy system alone, with faults on demand under /admin; the flags below go with it"},
		&cli.BoolFlag{Name: "mapping", Usage: "print the configuration that maps the sample legacy system, and end"},
		&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT`", Value: "127.0.0.1:9300"},
		&cli.Uint64Flag{Name: "seed", Usage: "same seed, same data", Value: 1},
		&cli.IntFlag{Name: "inquiries", Usage: "how many inquiries there are", Value: legacy.DefaultInquiries},
		&cli.DurationFlag{Name: "latency", Usage: "spent before every list"},
		&cli.DurationFlag{Name: "change-every", Usage: "mean time between two changes of one buyer's list; 0: never"},
	}
}

// serveLegacy runs the legacy system until ctx ends.
func serveLegacy(ctx context.Context, c *cli.Command) error {
	l, err := app.Listen("--listen", c.String("listen"))
	if err != nil {
		return err
	}
	system := legacy.New(legacy.Options{
		Seed: c.Uint64("seed"), Inquiries: c.Int("inquiries"), Latency: c.Duration("latency"), ChangeEvery: c.Duration("change-every"),
	})
	fmt.Fprintf(c.Root().Writer, "legacy system on http://%s; accounts: http://%s/admin/accounts\n", l.Addr(), l.Addr())
	return app.Serve(ctx, l, system, legacyGrace, app.NewLogger(c.Root().ErrWriter))
}
