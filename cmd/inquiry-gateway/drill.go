package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/drill"
)

const (
	drillTimeout = time.Minute
	// drillSlack is what an answer may take beyond what is declared: the machine
	// may have other work, and has the drill's.
	drillSlack = 250 * time.Millisecond
)

// drillCommand ends with an error where a row is not as declared, so that it can
// guard a roll-out.
func drillCommand() *cli.Command {
	return &cli.Command{
		Name:  "drill",
		Usage: "run a gateway while Redis, the legacy system and the key store fail, and compare what callers get with what is declared",
		Description: "Starts gateways with a legacy system, a key store and a way to Redis of their own, all on this machine,\n" +
			"and does to those what happens at night: slow, down, garbage, one at a time and two at once. Nothing\n" +
			"real is asked. With -c the settings are those of the file: timeouts, breaker, stale_if_error, retries,\n" +
			"where keys come from. Redis is a redis-server that it starts, or REDIS_URL on this machine.\n" +
			"Exit code 0: all as declared. 1: not. 2: wrong use.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "with the settings of the configuration `FILE` (default: those that a gateway is delivered with)"},
			&cli.BoolFlag{Name: "json", Usage: "answer in JSON"},
			&cli.BoolFlag{Name: "require-redis", Usage: "fail where there is no Redis to drill with"},
			&cli.DurationFlag{Name: "timeout", Usage: "for all of it; what there is no time for is not as declared", Value: drillTimeout},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
			defer cancel()
			dir, err := os.MkdirTemp("", "inquiry-gateway-drill-")
			if err != nil {
				return err
			}
			// Everything has ended before anything is written: who reads the first
			// lines only, as head does, ends this process with them.
			report, err := drillIn(ctx, c, dir)
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				return err
			}
			return errors.Join(show(c, report, report.WriteText), report.Err())
		},
	}
}

// drillIn runs the drill with its files in dir. Without Redis the rows that need
// one are left out, unless --require-redis says that this is a failure. A Redis of
// REDIS_URL that cannot be used is always one.
func drillIn(ctx context.Context, c *cli.Command, dir string) (report drill.Report, err error) {
	cfg, whose, err := drilledConfig(c.String("config"))
	if err != nil {
		return report, err
	}
	var done atomic.Value // a text
	done.Store("starting")
	o := drill.Options{
		Config: cfg, Whose: whose, Start: startDrilled, Dir: dir, Slack: drillSlack,
		Progress: func(n, all int) { done.Store(fmt.Sprintf("%d of %s done", n, plural(all, "failure"))) },
	}
	defer showProgress(c, func() string { return "drill: " + done.Load().(string) })()
	if len(cfg.Redis.Addrs) > 0 {
		o.Store, err = drill.OpenStore(ctx, os.Getenv("REDIS_URL"), dir)
		if err != nil && !errors.Is(err, drill.ErrNoStore) {
			return report, err
		}
	}
	if o.Store != nil {
		defer func() { err = errors.Join(err, o.Store.Close()) }()
	} else if c.Bool("require-redis") {
		if err == nil {
			err = errors.New("this gateway has none (redis.addrs)")
		}
		return report, fmt.Errorf("--require-redis: %w", err)
	}
	return drill.Run(ctx, o)
}

// drilledConfig has the settings to drill, and says whose they are. Without a
// file they are the defaults, with everything that can fail: Redis, and keys in
// an authorization server.
func drilledConfig(file string) (config.Config, string, error) {
	if file != "" {
		loaded, err := config.Load(file, mappingOnly())
		return loaded.Config, file, err
	}
	cfg, keys := config.Default(), auth.DefaultIntrospectionConfig()
	cfg.Auth = auth.Config{Introspection: &keys}
	cfg.Redis.Addrs = []string{"127.0.0.1:6379"} // any: there is one
	return cfg, "a gateway as it is delivered", nil
}

// startDrilled runs a gateway as serve does, but for its log, and without
// traces: a drill's failures are nobody's.
func startDrilled(ctx context.Context, cfg config.Config) (drill.Gateway, error) {
	cfg.ShutdownDelay = 0 // there is no balancer
	l, err := app.OpenListeners(cfg)
	if err != nil {
		return drill.Gateway{}, err
	}
	log := &causes{byID: map[string]string{}}
	a, err := app.New(cfg, l, app.Options{
		Logger: slog.New(slog.DiscardHandler), Requests: log, Getenv: func(string) string { return "" }, Version: version, Revision: revision,
	})
	if err != nil {
		return drill.Gateway{}, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return drill.Gateway{
		URL: a.URL(), Ops: a.OpsURL(), Cause: log.of,
		Expire: a.ExpireLists,
		Stop:   func() error { cancel(); return <-done },
	}, nil
}

// causes is a log of requests that keeps why those failed that did, by the id of the
// request. A drill's gateway has few of them, so that none is forgotten. It is safe for
// concurrent use.
type causes struct {
	mu   sync.Mutex
	byID map[string]string
}

// Write takes one record.
func (c *causes) Write(line []byte) (int, error) {
	var record struct {
		ID    string `json:"request_id"`
		Cause string `json:"cause"`
	}
	if err := json.Unmarshal(line, &record); err == nil && record.Cause != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byID[record.ID] = record.Cause
	}
	return len(line), nil
}

// of is why the request with that id failed; empty where it did not, or where its
// record has not been written yet.
func (c *causes) of(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}
