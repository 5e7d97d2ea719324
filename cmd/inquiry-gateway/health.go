package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"
)

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
			return health(ctx, url, c.Root().Writer)
		},
	}
}

// maxHealthBytes bounds what is shown of an answer.
const maxHealthBytes = 4 << 10

// health prints what the listener says, whatever its status: an orchestrator shows
// it where a check fails.
func health(ctx context.Context, url string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{err}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(out, io.LimitReader(res.Body, maxHealthBytes)); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}
