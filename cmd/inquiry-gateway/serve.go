package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// configFlag is for commands that cannot do without a configuration.
func configFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read the configuration from `FILE`", Required: true}
}

// serveCommand runs until SIGTERM or Ctrl-C. Warnings go into the log, because
// nobody reads what a service prints at its start.
func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the lists",
		Flags: []cli.Flag{configFlag()},
		Action: func(ctx context.Context, c *cli.Command) error {
			loaded, err := config.Load(c.String("config"), config.Options{})
			if err != nil {
				return err
			}
			log := c.Root().ErrWriter
			if loaded.Config.Log.Format == config.LogText {
				log = app.TextLog(log)
			}
			out := app.NewLogWriter(log)
			defer out.Close()
			cfg, logger := loaded.Config, app.NewLogger(out)
			for _, warning := range loaded.Warnings {
				logger.Warn("configuration", "warning", warning.Error())
			}
			l, err := app.OpenListeners(cfg)
			if err != nil {
				return err
			}
			a, err := app.New(cfg, l, options(logger, out, c.Root().Writer))
			if err != nil {
				return err
			}
			app.SpareCollections()
			return a.Run(ctx)
		},
	}
}

// options are those of a program that runs for its own sake: traces go where the
// environment says.
func options(logger *slog.Logger, requests, spans io.Writer) app.Options {
	return app.Options{Logger: logger, Requests: requests, Spans: spans, Getenv: os.Getenv, Version: version, Revision: revision}
}
