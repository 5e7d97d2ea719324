package main

import (
	"cmp"
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

// configFlag is for commands that require a configuration.
func configFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the configuration `FILE`", Required: true}
}

// defaultConfig is the configuration of serve and check without -c.
const defaultConfig = "gateway.yaml"

// configFile returns the file of -c, or the default in the current folder.
func configFile(c *cli.Command) (string, error) {
	if file := c.String("config"); file != "" {
		return file, nil
	}
	if _, err := os.Stat(defaultConfig); err != nil {
		return "", usagef("which configuration? give -c FILE, or run %s in the folder of %s", c.FullName(), defaultConfig)
	}
	return defaultConfig, nil
}

// serveCommand runs the gateway until SIGTERM or Ctrl-C. It reads the configuration before it opens a port, and opens the ports
// before it connects to any other program. Warnings are logged.
func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the lists",
		Flags: []cli.Flag{&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the configuration `FILE` (default: ./" + defaultConfig + ")"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			hangup := hangups() // before anything else: without it the signal would end the process
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

// hangups returns the signals on which a running gateway reloads all its files.
func hangups() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// options returns the options of serve and demo. out must be the writer of logger, so that all records are in order.
func options(logger *slog.Logger, out *app.LogWriter) app.Options {
	return app.Options{Logger: logger, Requests: out, LostRecords: out.Lost, Traces: true, Version: version, Revision: revision}
}

// healthCommand is a health check for images without a shell. Any 2xx is healthy, a degraded gateway included: a restart would
// not help.
func healthCommand() *cli.Command {
	return &cli.Command{
		Name:      "health",
		Usage:     "request a readiness URL, and fail unless the status is 2xx",
		ArgsUsage: "[URL] (default http://127.0.0.1:9090/readyz)",
		Flags:     []cli.Flag{&cli.DurationFlag{Name: "timeout", Usage: "of the request with its response", Value: 2 * time.Second}},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() > 1 {
				return usagef("health takes one URL, not %d", c.NArg())
			}
			url := cmp.Or(c.Args().First(), "http://127.0.0.1:9090/readyz")
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
			// Whatever the status is: orchestrators show it if a check fails.
			if _, err := io.Copy(c.Root().Writer, io.LimitReader(res.Body, maxHealthBytes)); err != nil {
				return err
			}
			if res.StatusCode/100 != 2 {
				return fmt.Errorf("%s responds with %s", url, res.Status)
			}
			return nil
		},
	}
}

// maxHealthBytes bounds what is printed of a response.
const maxHealthBytes = 4 << 10
