package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/gateway/ops"
)

// changedCommand reaches all nodes by asking one of them, as purge does.
func changedCommand() *cli.Command {
	return &cli.Command{
		Name:  "changed",
		Usage: "have cached lists refreshed that have changed at the legacy system",
		Flags: append(opsFlags(),
			&cli.StringSliceFlag{Name: "account", Usage: "all lists of the account with this `ID`, of either kind; may be repeated"},
			&cli.StringSliceFlag{Name: "record", Usage: "the lists that have the record with this internal `ID`; needs cache.hints.record_key_file; may be repeated"},
			&cli.StringSliceFlag{Name: "kind", Usage: "all lists of buyers, or all of sellers"},
			&cli.BoolFlag{Name: "hard", Usage: "do not serve the old lists any more, not even for a moment"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			want := ops.ChangedRequest{Accounts: c.StringSlice("account"), Records: c.StringSlice("record"), Kinds: c.StringSlice("kind"), Hard: c.Bool("hard")}
			if len(want.Accounts)+len(want.Records)+len(want.Kinds) == 0 {
				return usagef("what has changed? give --account ID, --record ID or --kind buyer|seller")
			}
			var reply ops.ChangedReply
			if err := askOps(ctx, c, "/ops/changed", want, &reply); err != nil {
				return err
			}
			return show(c, reply, func(out io.Writer) error {
				further := ""
				if len(want.Records) > 0 {
					further = " here, and of those that other nodes find by the records"
				}
				_, err := fmt.Fprintf(out, "marked as changed: the lists of %d accounts and kinds%s\n", reply.Marked, further)
				return err
			})
		},
	}
}
