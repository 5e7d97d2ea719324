package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// configFlag is for commands that cannot do without a configuration.
func configFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read the configuration from `FILE`", Required: true}
}

// defaultConfig is the configuration of serve and check where -c names none.
const defaultConfig = "gateway.yaml"

// configFile is the file of -c, or the default in this folder.
func configFile(c *cli.Command) (string, error) {
	if file := c.String("config"); file != "" {
		return file, nil
	}
	if _, err := os.Stat(defaultConfig); err != nil {
		return "", usagef("give the configuration: -c FILE, or run %s in the folder of %s", c.FullName(), defaultConfig)
	}
	return defaultConfig, nil
}

// serveCommand runs until SIGTERM or Ctrl-C. Warnings go into the log, because
// nobody reads what a service prints at its start. It reads the configuration before it opens a
// port, and opens the ports before it asks any other program.
func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the lists",
		Flags: []cli.Flag{&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read the configuration from `FILE` (default: ./" + defaultConfig + ")"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			hangup := hangups() // one that comes during the start would end the process
			defer signal.Stop(hangup)
			out := app.NewLogWriter(c.Root().ErrWriter)
			defer out.Close()
			logger := app.NewLogger(out)
			app.RedirectLibraries(logger)
			file, err := configFile(c)
			if err != nil {
				return err
			}
			cfg, err := config.Load(file, config.Options{})
			if err != nil {
				return err
			}
			app.Warn(logger, cfg)
			l, err := app.OpenListeners(cfg)
			if err != nil {
				return err
			}
			o := options(logger, out)
			o.Hangup = hangup
			a, err := app.New(cfg, l, o)
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	}
}

// hangups are the signals on which a running gateway reads all its files again.
func hangups() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// options are those of serve and demo. out must be the writer behind logger, so that the records of
// requests and all others stay in their order.
func options(logger *slog.Logger, out *app.LogWriter) app.Options {
	return app.Options{Logger: logger, Requests: out, LostRecords: out.Lost, Traces: true, Version: version, Revision: revision}
}

// healthCommand is a health check for images that have no shell and no other
// program. Any 2xx is healthy, a degraded gateway included: restarting it would
// not bring Redis back.
func healthCommand() *cli.Command {
	return &cli.Command{
		Name:      "health",
		Usage:     "ask a readiness URL and fail unless the answer is 2xx",
		ArgsUsage: "[URL] (default http://127.0.0.1:9090/readyz)",
		Flags:     []cli.Flag{&cli.DurationFlag{Name: "timeout", Usage: "for the whole answer", Value: 2 * time.Second}},
		Action: func(ctx context.Context, c *cli.Command) error {
			url := "http://127.0.0.1:9090/readyz"
			if c.Args().Present() {
				url = c.Args().First()
			}
			ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return usageError{err}
			}
			res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req) // through no proxy
			if err != nil {
				return err
			}
			defer res.Body.Close()
			// What the listener says, whatever its status: an orchestrator shows it where a check fails.
			if _, err := io.Copy(c.Root().Writer, io.LimitReader(res.Body, maxHealthBytes)); err != nil {
				return err
			}
			if res.StatusCode/100 != 2 {
				return fmt.Errorf("%s answers %s", url, res.Status)
			}
			return nil
		},
	}
}

// maxHealthBytes bounds what is shown of an answer.
const maxHealthBytes = 4 << 10
