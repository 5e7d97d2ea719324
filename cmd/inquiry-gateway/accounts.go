package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
)

// keysAccountCommand changes one account that keys belong to, or lists all. Whether an
// account has paid decides over all of its keys, so that it is one change and not one per
// key. A new account needs --api-access, so that a typing error in an id does not make one.
func keysAccountCommand() *cli.Command {
	list := listCommand("", func(l auth.Listing) any { return l.Accounts }, writeAccounts)
	return &cli.Command{
		Name:      "account",
		Usage:     "list the accounts, or change what one has paid for or its plan; one that is not there is added with --api-access",
		ArgsUsage: "[ACCOUNT-ID]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "api-access", Usage: "paid or none"},
			&cli.StringFlag{Name: "plan", Usage: "the `NAME` of the plan under rate_limit.plans; \"\" takes it away"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if !c.Args().Present() && !c.IsSet("api-access") && !c.IsSet("plan") {
				return list.Action(ctx, c)
			}
			change, err := accountChange(c)
			if err != nil {
				return err
			}
			return withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
				if err := store.checkPlan(change.Plan); err != nil {
					return err
				}
				err := store.SetAccount(ctx, change)
				if errors.Is(err, auth.ErrNoSuchAccount) {
					return fmt.Errorf("%w; give --api-access to add it", err)
				}
				if err != nil {
					return err
				}
				return showAccount(ctx, c, store, change.ID)
			})
		},
	}
}

// checkPlan refuses a plan that the configuration does not have: the account
// would get the limits of no plan.
func (s *keyStore) checkPlan(plan *string) error {
	if plan == nil || *plan == "" || s.plans == nil || slices.Contains(s.plans, *plan) {
		return nil
	}
	slices.Sort(s.plans)
	return usagef("there is no plan %q under rate_limit.plans; known: %s", *plan, cmp.Or(strings.Join(s.plans, ", "), "none"))
}

// accountChange reads the flags. What is not given stays as the store has it; a plan of
// "" takes the account's plan away, which is why the flag is asked for, and not its value.
func accountChange(c *cli.Command) (auth.AccountChange, error) {
	if c.NArg() != 1 {
		return auth.AccountChange{}, usagef("which account? keys account ACCOUNT-ID --api-access paid|none [--plan NAME]")
	}
	change := auth.AccountChange{ID: c.Args().First(), APIAccess: c.String("api-access")}
	switch change.APIAccess {
	case auth.AccessPaid, auth.AccessNone:
		change.Create = true
	case "":
		if !c.IsSet("plan") {
			return change, usagef("nothing to change: give --api-access paid|none or --plan NAME")
		}
	default:
		return change, usagef("--api-access is %q; give paid or none", change.APIAccess)
	}
	if c.IsSet("plan") {
		plan := c.String("plan")
		change.Plan = &plan
	}
	return change, nil
}

// showAccount prints the account as the store has it now: another command may have
// changed it, too.
func showAccount(ctx context.Context, c *cli.Command, store *keyStore, id string) error {
	listing, err := store.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(listing.Accounts, func(a auth.Account) bool { return a.ID == id })
	if i < 0 {
		return fmt.Errorf("account %s: %w", printable(id), auth.ErrNoSuchAccount)
	}
	a := listing.Accounts[i]
	return show(c, a, func(out io.Writer) {
		fmt.Fprintf(out, "account %s: api access %s, plan %s; running gateways see it %s\n", a.ID, a.APIAccess, cmp.Or(a.Plan, "none"), store.when)
	})
}

// writeAccounts prints one line per account. An account without keys is shown,
// too: nobody can use it yet.
func writeAccounts(out io.Writer, listing auth.Listing) {
	keys := map[string]int{}
	for _, k := range listing.Keys {
		keys[k.Account]++
	}
	rows := [][]string{{"ID", "API ACCESS", "PLAN", "KEYS"}}
	for _, a := range listing.Accounts {
		rows = append(rows, []string{a.ID, a.APIAccess, cmp.Or(a.Plan, "-"), strconv.Itoa(keys[a.ID])})
	}
	writeTable(out, rows)
}
