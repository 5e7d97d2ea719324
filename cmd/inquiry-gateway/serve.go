package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

func configFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read the configuration from `FILE`", Required: true}
}

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
			out := newLogWriter(c.Root().ErrWriter)
			defer out.Close()
			cfg, logger := loaded.Config, newLogger(out)
			for _, warning := range loaded.Warnings {
				logger.Warn("configuration", "warning", warning.Error())
			}
			l, err := openListeners(cfg)
			if err != nil {
				return err
			}
			a, err := newApp(cfg, l, outlets{logger: logger, requests: out, spans: c.Root().Writer, getenv: os.Getenv})
			if err != nil {
				return err
			}
			return a.run(ctx)
		},
	}
}

// newLogger writes one JSON record per line. The Redis client's own remarks go
// the same way instead of between the lines; what they tell is in the metrics,
// so they are for debugging.
func newLogger(w io.Writer) *slog.Logger {
	logger := slog.New(slog.NewJSONHandler(w, nil))
	redis.SetLogger(redisRemarks{logger})
	return logger
}

type redisRemarks struct{ logger *slog.Logger }

func (r redisRemarks) Printf(ctx context.Context, format string, args ...any) {
	r.logger.DebugContext(ctx, "redis client", "remark", fmt.Sprintf(format, args...))
}

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say what is wrong with a configuration, by file, line and key",
		Flags: append([]cli.Flag{
			configFlag(),
			&cli.BoolFlag{Name: "print", Usage: "print the configuration in force, defaults included and secrets hidden"},
		}, checkFurtherFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := checkFurtherUse(c); err != nil {
				return err
			}
			file := c.String("config")
			loaded, err := config.Load(file, config.Options{})
			if err != nil {
				return err
			}
			if err := checkParts(loaded.Config); err != nil {
				return err
			}
			out := c.Root().Writer
			for _, warning := range loaded.Warnings {
				fmt.Fprintf(out, "warning: %v\n", warning)
			}
			if c.Bool("print") {
				fmt.Fprint(out, loaded.Config.Redacted())
			}
			if _, err = fmt.Fprintf(out, "%s: good\n", file); err != nil {
				return err
			}
			return checkFurther(ctx, c, loaded.Config)
		},
	}
}

// checkParts builds everything that serve would build, short of listening, so
// that what is in the named files is checked too.
func checkParts(cfg config.Config) (err error) {
	a := &app{outlets: outlets{logger: slog.New(slog.DiscardHandler)}, registry: newRegistry()}
	a.panics = newPanics(a.registry)
	defer func() { err = errors.Join(err, a.closeParts(context.Background())) }()
	if a.redis, err = redistier.Open(cfg.Redis, a.registry, a.logger); err != nil {
		return err
	}
	gen, err := a.newGeneration(cfg)
	if err == nil {
		a.current.Store(gen)
	}
	return err
}
