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
			&cli.BoolFlag{Name: "refresh", Usage: "have the lists fetched again, and serve the old ones until then: a hint that they have changed"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			want := ops.PurgeRequest{Kind: c.String("kind"), Account: c.String("account")}
			switch {
			case (want.Kind == "") == (want.Account == ""):
				return usagef("purge what? give --account ID or --kind buyer|seller")
			case want.Kind != "" && want.Kind != "buyer" && want.Kind != "seller":
				return usagef("--kind is %q; give buyer or seller", want.Kind)
			}
			if c.Bool("refresh") {
				return refresh(ctx, c, want)
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

// refresh marks lists as changed on all nodes. Other than a purge it lets the old lists be
// served for a moment, so that it may be called for each change.
func refresh(ctx context.Context, c *cli.Command, want ops.PurgeRequest) error {
	var hint ops.ChangedRequest
	if want.Account != "" {
		hint.Accounts = []string{want.Account}
	} else {
		hint.Kinds = []string{want.Kind}
	}
	var reply ops.ChangedReply
	if err := askOps(ctx, c, "/ops/changed", hint, &reply); err != nil {
		return err
	}
	return show(c, reply, func(out io.Writer) {
		fmt.Fprintf(out, "marked as changed: the lists of %d accounts and kinds\n", reply.Marked)
	})
}
