package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// ttlCommand answers from what was measured: by a running gateway, or from its log
// where the question comes later. From a log the answer is for the policy of -c, which
// need not be the one that ran.
func ttlCommand() *cli.Command {
	return &cli.Command{
		Name:  "ttl",
		Usage: "say what another ttl would do: from a running gateway, or from a log",
		Flags: append(opsFlags(),
			&cli.StringFlag{Name: "log", Usage: "read the log `FILE` (- for standard input), written with log.access_keys: hashed, by the policy of -c or the default"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			var report ttllab.Report
			var err error
			if c.String("log") != "" {
				report, err = ttlFromLog(c)
			} else {
				err = askOps(ctx, c, "/ops/ttl", nil, &report)
			}
			if err != nil {
				return err
			}
			return show(c, report, func(out io.Writer) { _ = report.WriteTable(out) }) // into memory
		},
	}
}

// ttlFromLog reads a log by kind: a line does not say whether its status has a
// ttl of its own. A log without a look-up is an error, because it was probably written
// without log.access_keys, and a table of zeros would look like an answer.
func ttlFromLog(c *cli.Command) (ttllab.Report, error) {
	if c.String("ops") != "" {
		return ttllab.Report{}, usagef("--log reads a file and --ops asks a gateway; give one of them")
	}
	policy := cache.DefaultConfig()
	if file := c.String("config"); file != "" {
		loaded, err := config.Load(file, mappingOnly())
		if err != nil {
			return ttllab.Report{}, err
		}
		policy = loaded.Config.Cache
	}
	policy.Buyer.ByStatus, policy.Seller.ByStatus = nil, nil
	in := os.Stdin
	if name := c.String("log"); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return ttllab.Report{}, err
		}
		defer f.Close()
		in = f
	}
	report, err := ttllab.FromLog(in, ttllab.KindsOf(policy), ttllab.ConfigOf(policy))
	if err == nil && report.Log != nil && report.Log.Lookups == 0 {
		return report, fmt.Errorf("%s has no look-up among its %d lines; the gateway writes them with log: {access_keys: hashed}", c.String("log"), report.Log.Lines)
	}
	return report, err
}
