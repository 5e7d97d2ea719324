package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/upstream/legacy"
)

// legacyGrace is how long lists under way may take when the legacy stops.
const legacyGrace = 2 * time.Second

// legacyCommand runs what the tests and the demo run in front of the gateway, so
// that a fault can be tried by hand.
func legacyCommand() *cli.Command {
	return &cli.Command{
		Name:  "legacy",
		Usage: "run the sample legacy system alone, with faults on demand under /admin",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT`", Value: "127.0.0.1:9300"},
			&cli.Uint64Flag{Name: "seed", Usage: "same seed, same data", Value: 1},
			&cli.IntFlag{Name: "inquiries", Usage: "how many inquiries there are", Value: legacy.DefaultInquiries},
			&cli.DurationFlag{Name: "latency", Usage: "spent before every list"},
			&cli.DurationFlag{Name: "change-every", Usage: "mean time between two changes of one buyer's list; 0: never"},
			&cli.BoolFlag{Name: "mapping", Usage: "print the configuration that maps it, and end"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Bool("mapping") {
				_, err := c.Root().Writer.Write(legacy.Mapping())
				return err
			}
			l, err := app.Listen("--listen", c.String("listen"))
			if err != nil {
				return err
			}
			system := legacy.New(legacy.Options{
				Seed: c.Uint64("seed"), Inquiries: c.Int("inquiries"), Latency: c.Duration("latency"), ChangeEvery: c.Duration("change-every"),
			})
			fmt.Fprintf(c.Root().Writer, "legacy system on http://%s; accounts: http://%s/admin/accounts\n", l.Addr(), l.Addr())
			return app.Serve(ctx, l, system, legacyGrace, app.NewLogger(c.Root().ErrWriter))
		},
	}
}
