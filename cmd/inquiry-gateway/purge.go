package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/gateway/ops"
)

// purgeCommand reaches all nodes by asking one of them: a purge is written to Redis,
// where the others see it. Once it has ended well, no node serves what it had before for
// longer than a second.
func purgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "purge",
		Usage: "have no node serve the cached lists of an account or of a kind any more",
		Flags: append(opsFlags(),
			&cli.StringFlag{Name: "account", Usage: "all lists of the account with this `ID`, of either kind"},
			&cli.StringFlag{Name: "kind", Usage: "all lists of buyers, or all of sellers"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			want := ops.PurgeRequest{Kind: c.String("kind"), Account: c.String("account")}
			switch {
			case (want.Kind == "") == (want.Account == ""):
				return usagef("purge what? give --account ID or --kind buyer|seller")
			case want.Kind != "" && want.Kind != "buyer" && want.Kind != "seller":
				return usagef("--kind is %q; give buyer or seller", want.Kind)
			}
			var reply ops.PurgeReply
			if err := askOps(ctx, c, "/ops/purge", want, &reply); err != nil {
				return err
			}
			return show(c, struct {
				ops.PurgeRequest
				ops.PurgeReply
			}{want, reply}, func(out io.Writer) { writePurge(out, want, reply) })
		},
	}
}

// writePurge prints the epoch, by which explain shows that a node has the purge.
func writePurge(out io.Writer, want ops.PurgeRequest, reply ops.PurgeReply) {
	what := "all lists of the kind " + want.Kind
	if want.Account != "" {
		what = "all lists of the account " + printable(want.Account)
	}
	fmt.Fprintf(out, "purged: %s; epoch %d\n", what, reply.Epoch)
}

// changedCommand reaches all nodes by asking one of them, as purge does. Other than a
// purge it lets the old lists be served for a moment, unless --hard is given, so that it
// may be called for each change.
func changedCommand() *cli.Command {
	return &cli.Command{
		Name:  "changed",
		Usage: "have cached lists refreshed that have changed at the legacy system",
		Flags: append(opsFlags(),
			&cli.StringSliceFlag{Name: "account", Usage: "all lists of the account with this `ID`, of either kind; may be repeated"},
			&cli.StringSliceFlag{Name: "kind", Usage: "all lists of buyers, or all of sellers"},
			&cli.BoolFlag{Name: "hard", Usage: "do not serve the old lists any more, not even for a moment"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			want := ops.ChangedRequest{Accounts: c.StringSlice("account"), Kinds: c.StringSlice("kind"), Hard: c.Bool("hard")}
			if len(want.Accounts)+len(want.Kinds) == 0 {
				return usagef("what has changed? give --account ID or --kind buyer|seller")
			}
			var reply ops.ChangedReply
			if err := askOps(ctx, c, "/ops/changed", want, &reply); err != nil {
				return err
			}
			return show(c, reply, func(out io.Writer) {
				fmt.Fprintf(out, "marked as changed: the lists of %d accounts and kinds\n", reply.Marked)
			})
		},
	}
}
