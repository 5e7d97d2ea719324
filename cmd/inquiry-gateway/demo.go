package main

import (
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

const (
	// The demo's legacy system is small: its lists fit on a screen.
	demoBuyers    = 8
	demoInquiries = 64
	// legacyGrace is how long lists under way may take when the legacy stops.
	legacyGrace = 2 * time.Second
)

// demoCommand runs the gateway without any file of the user. It writes to a temporary folder, which it removes at the end. Most
// flags are for --legacy-only, which is for trying faults with one's own configuration.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "run the gateway in front of a sample legacy system, with sample keys",
		Description: "Set REDIS_URL=redis://HOST:PORT to use a Redis. Under /admin, the sample legacy system\n" +
			"produces faults on demand.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "legacy-only", Usage: "run only the sample legacy system, with the flags below"},
			&cli.BoolFlag{Name: "mapping", Usage: "print a configuration for the sample legacy system, and exit"},
			&cli.StringFlag{Name: "listen", Usage: "listen at `HOST:PORT`", Value: "127.0.0.1:9300"},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the sample data", Value: 1},
			&cli.IntFlag{Name: "inquiries", Usage: "number of inquiries", Value: legacy.DefaultInquiries},
			&cli.DurationFlag{Name: "latency", Usage: "delay before every list"},
			&cli.DurationFlag{Name: "change-every", Usage: "mean time between changes of a buyer's list; 0s: never"},
		},
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
			for _, flag := range []string{"listen", "seed", "inquiries", "latency", "change-every"} {
				if c.IsSet(flag) {
					return usagef("--%s goes with --legacy-only; the demo chooses it itself", flag)
				}
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

// demo is an installation in one process and one temporary folder, of the parts of serve.
type demo struct {
	dir         string    // of the configuration, the keys and the secrets
	out, errOut io.Writer // for the welcome, for the log
	redisURL    string    // empty without Redis
}

// run opens all ports first, because the configuration names their addresses, and then runs the gateway and the sample legacy
// system. If one fails, both end. Lists change every minute, to show freshness and revalidation.
func (d *demo) run(ctx context.Context) error {
	backend, err := d.listenNear("the legacy system", "127.0.0.1:9300")
	if err != nil {
		return err
	}
	public, err := d.listenNear("the gateway", "127.0.0.1:8080")
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	private, err := d.listenNear("the ops listener", "127.0.0.1:9090")
	if err != nil {
		return errors.Join(err, backend.Close(), public.Close())
	}
	l := app.Listeners{Public: public, Ops: private}
	callers, cfg, err := d.write(l, backend.Addr().String())
	if err != nil {
		return errors.Join(err, backend.Close(), l.Close())
	}
	out := app.NewLogWriter(d.errOut)
	defer out.Close()
	logger := app.NewLogger(out)
	app.RedirectLibraries(logger)
	a, err := app.New(cfg, l, options(logger, out))
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	d.welcome(a, backend, callers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error {
		system := legacy.New(legacy.Options{Seed: 1, Buyers: demoBuyers, Inquiries: demoInquiries, Latency: 20 * time.Millisecond, ChangeEvery: time.Minute})
		return app.Serve(ctx, backend, system, legacyGrace, logger)
	})
	return group.Wait()
}

// listenNear opens an address, or any free port on loopback if the address is in use.
func (d *demo) listenNear(what, address string) (net.Listener, error) {
	l, err := app.Listen(what, address)
	if err == nil {
		return l, nil
	}
	free, freeErr := net.Listen("tcp", "127.0.0.1:0")
	if freeErr != nil {
		return nil, errors.Join(err, freeErr)
	}
	fmt.Fprintf(d.out, "note: %s is in use, so %s listens on %s\n", address, what, free.Addr())
	return free, nil
}

// caller is a sample key and its expected response.
type caller struct {
	what, kind, key string         // what is for a person; write sets the key
	record          auth.KeyRecord // id, scopes and expiry; write sets the rest
	account         auth.Account
}

// demoCallers returns a caller for each outcome of a request, in the order of the welcome.
func demoCallers() []caller {
	sample := func(what, kind, id, account string, scopes ...string) caller {
		return caller{what: what, kind: kind, account: auth.Account{ID: account, APIAccess: auth.AccessPaid}, record: auth.KeyRecord{ID: id, Scopes: scopes}}
	}
	const buyer, seller, read = legacy.KindBuyer, legacy.KindSeller, auth.ScopeInquiriesRead
	callers := []caller{
		sample("a paying buyer: 200", buyer, "demo-buyer", legacy.BuyerTypical, read),
		sample("another buyer, who gets another list: 200", buyer, "demo-other-buyer", legacy.BuyerOther, read),
		sample("a seller: 200", seller, "demo-seller", legacy.SellerTypical, read),
		sample("a buyer without paid api_access: 403", buyer, "demo-unpaid", "unpaid", read),
		sample("a key without the scope inquiries:read: 403", buyer, "demo-no-scope", legacy.BuyerTypical),
		sample("an expired key: 401", buyer, "demo-expired", legacy.BuyerTypical, read),
	}
	callers[3].account.APIAccess = auth.AccessNone
	callers[5].record.ExpiresAt = time.Now().Add(-time.Hour)
	return callers
}

// write creates the keys and fills in demo.yaml, with which a person can go on. Each demo has new keys, so that a copied folder
// has none that others know.
func (d *demo) write(l app.Listeners, backend string) (callers []caller, cfg config.Config, err error) {
	put := func(name, text string) error { return os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600) }
	keys := keysfile.NewEditor(filepath.Join(d.dir, "keys.yaml"), auth.Hasher{})
	callers = demoCallers()
	for i := range callers {
		c := &callers[i]
		if c.key, err = auth.Generate(c.kind); err != nil {
			return nil, cfg, err
		}
		c.record.Kind, c.record.Account, c.record.Digest = c.kind, c.account.ID, auth.Hasher{}.Hash(c.key)
		err = keys.Add(context.Background(), c.record, &c.account)
		if err != nil {
			return nil, cfg, err
		}
	}
	redis := ""
	if d.redisURL != "" {
		o, err := redisclient.ParseURL(d.redisURL)
		if err != nil {
			return nil, cfg, err
		}
		file := ""
		if o.Password != "" {
			file = "redis-password"
			err = put(file, o.Password)
		}
		if err != nil {
			return nil, cfg, err
		}
		redis = fmt.Sprintf("redis: {addrs: [%q], username: %q, password_file: %q, tls: {enabled: %t}}\n", o.Addr, o.Username, file, o.TLS)
	}
	text := strings.NewReplacer("{{listen}}", l.Public.Addr().String(), "{{ops}}", l.Ops.Addr().String(), "{{redis}}\n", redis,
		"{{upstream}}\n", strings.ReplaceAll(string(legacy.Mapping()), legacy.MappingBaseURL, "http://"+backend)).Replace(demoConfig)
	if err = errors.Join(put("gateway.yaml", text), put("config.schema.json", string(config.Schema))); err != nil { // the schema is for editors
		return nil, cfg, err
	}
	cfg, err = config.Load(filepath.Join(d.dir, "gateway.yaml"), config.Options{})
	return callers, cfg, err
}

// welcome prints what runs where, and a command for each caller.
func (d *demo) welcome(a *app.App, backend net.Listener, callers []caller) {
	tier := "in the process"
	if d.redisURL != "" {
		tier = "in the process and in the Redis of REDIS_URL"
	}
	fmt.Fprintf(d.out, `
gateway        %s   documentation: %s/docs
ops            %s   the console: open it in a browser
legacy system  http://%s   open it in a browser: its buttons cause and end faults
lists          cached %s
configuration  %s

`, a.URL(), a.URL(), a.OpsURL(), backend.Addr(), tier, filepath.Join(d.dir, "gateway.yaml"))
	for _, c := range callers {
		fmt.Fprintf(d.out, "# %s\ncurl -i -H 'Authorization: Bearer %s' '%s/api/v1/%s/inquiries'\n", c.what, c.key, a.URL(), c.kind)
	}
	fmt.Fprintf(d.out, "# filtered: 200\ncurl -i -H 'Authorization: Bearer %s' '%s/api/v1/buyer/inquiries?status=pending'\n", callers[0].key, a.URL())
	fmt.Fprint(d.out, "\nCtrl-C stops everything. The log of the gateway follows.\n\n")
}
