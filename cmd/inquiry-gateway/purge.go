package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/gateway/ops"
)

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
			gateway, err := opsOf(c)
			if err != nil {
				return err
			}
			body, err := gateway.post(ctx, "/ops/purge", want)
			if err != nil {
				return err
			}
			return showPurge(c, want, body)
		},
	}
}

func showPurge(c *cli.Command, want ops.PurgeRequest, body []byte) error {
	var reply ops.PurgeReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return fmt.Errorf("the answer is not that of an ops listener: %w", err)
	}
	out := c.Root().Writer
	if c.Bool("json") {
		return json.NewEncoder(out).Encode(struct {
			ops.PurgeRequest
			ops.PurgeReply
		}{want, reply})
	}
	what := "all lists of the kind " + want.Kind
	if want.Account != "" {
		what = "all lists of the account " + printable(want.Account)
	}
	if reply.Wanted > 0 {
		what += fmt.Sprintf("; %d replicas of Redis have it", reply.Replicas)
	}
	_, err := fmt.Fprintf(out, "purged: %s; epoch %d\n", what, reply.Epoch)
	return err
}
