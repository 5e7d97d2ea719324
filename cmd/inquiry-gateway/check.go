package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// checkCommand finds mistakes before serve would. It opens no port, so that it can
// run beside the gateway whose file it checks.
func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say what is wrong with a configuration, by file, line and key",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE` (default: ./" + defaultConfig + ")"},
			&cli.BoolFlag{Name: "print", Usage: "print the configuration in force, defaults included and secrets hidden"},
			&cli.BoolFlag{Name: "failures", Usage: "print what callers get while Redis, the legacy system or the key store fails, with the values of the configuration"},
			&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema of the configuration, for an editor, and check nothing"},
			&cli.StringFlag{Name: "tests", Usage: "run the tests of the mapping in `FILE`, with saved replies"},
			&cli.BoolFlag{Name: "live", Usage: "ask the legacy system for one whole list, for --buyer, for --seller, or for both, and Redis whether it keeps keys"},
			&cli.StringFlag{Name: "buyer", Usage: "with --live: the account `ID` of a buyer"},
			&cli.StringFlag{Name: "seller", Usage: "with --live: the account `ID` of a seller"},
			&cli.BoolFlag{Name: "all", Usage: "with --live: also ask for the page after the last one, and for the lists of all words of the filters: does a list end where it seems to?"},
			mayMissFlag("with --live: "),
			&cli.StringFlag{Name: "against", Usage: "show what differs from the gateway whose ops listener is at `URL`; fails if anything does"},
			tokenFileFlag("with --against: "),
			jsonFlag(),
		},
		Action: check,
	}
}

// checked is what check found, for a program; what was not asked for is left out.
type checked struct {
	File        string          `json:"file"`
	Good        bool            `json:"good"` // the file; the exit code is about all
	Problems    config.Problems `json:"problems"`
	Warnings    config.Problems `json:"warnings"`
	Printed     string          `json:"configuration,omitempty"`
	Failures    []failure       `json:"failures,omitzero"`
	Tests       []probe.Result  `json:"tests,omitzero"`
	Live        []*probe.Probe  `json:"live,omitzero"`
	Differences []config.Change `json:"differences,omitzero"`
}

// check reads the file and builds what serve would build. Once that is good it does all that the
// flags ask for, whatever each of them finds; only --live and --against ask another program.
// What is wrong is the command's error, with --json too.
func check(ctx context.Context, c *cli.Command) error {
	if err := checkUse(c); err != nil {
		return err
	}
	if c.Bool("schema") {
		_, err := c.Root().Writer.Write(config.Schema)
		return err
	}
	file, err := configFile(c)
	if err != nil {
		return err
	}
	cfg, err := loadChecked(file, c.String("tests") != "")
	none := config.Problems{} // a list in JSON, not null
	found := checked{File: file, Good: err == nil, Problems: none, Warnings: append(none, cfg.Warnings()...)}
	if err == nil {
		found.Warnings = append(found.Warnings, checkAccounts(ctx, cfg, file, c.Bool("live"))...)
	}
	if err != nil {
		problems, ok := errors.AsType[config.Problems](err)
		if !ok { // it is about the file as a whole
			problems = config.Problems{{Message: err.Error()}}
		}
		if found.Problems = append(none, problems...); c.Bool("json") {
			return errors.Join(show(c, found, nil), err)
		}
		return err
	}
	if c.Bool("print") {
		found.Printed = cfg.Redacted()
	}
	if c.Bool("failures") {
		found.Failures = failuresOf(cfg)
	}
	var errs []error
	if name := c.String("tests"); name != "" {
		found.Tests, err = runTests(ctx, cfg.Upstream, name)
		errs = append(errs, err)
	}
	if c.Bool("live") {
		found.Live, err = checkLive(ctx, c, cfg)
		errs = append(errs, err)
		if warning := checkEviction(ctx, cfg); warning != "" {
			found.Warnings = append(found.Warnings, config.Problem{File: file, Key: "auth.redis", Message: warning})
		}
	}
	if c.String("against") != "" {
		found.Differences, err = checkAgainst(ctx, c, cfg)
		errs = append(errs, err)
	}
	errs = append(errs, show(c, found, func(out io.Writer) { found.write(out, cfg, c.String("against")) }))
	return errors.Join(errs...)
}

// runTests runs the tests of the mapping that stand in a file. The error is about the file,
// or says how many failed.
func runTests(ctx context.Context, cfg upstream.Config, file string) ([]probe.Result, error) {
	var tests []probe.Test
	if err := config.Read(file, &tests); err != nil {
		return nil, err
	}
	results, err := probe.RunTests(ctx, cfg, tests, filepath.Dir(file), v1.Render)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	failed := 0
	for _, r := range results {
		failed += min(len(r.Differences), 1)
	}
	if failed > 0 {
		err = fmt.Errorf("%d of %d tests failed", failed, len(results))
	}
	return results, err
}

// write prints all for a person.
func (f *checked) write(out io.Writer, cfg config.Config, running string) {
	for _, warning := range f.Warnings {
		fmt.Fprintf(out, "warning: %v\n", warning)
	}
	fmt.Fprintf(out, "%s%s: good\n", f.Printed, f.File)
	if f.Failures != nil {
		writeFailures(out, cfg, f.Failures)
	}
	passed := 0
	for _, r := range f.Tests {
		if len(r.Differences) == 0 {
			passed++
			fmt.Fprintf(out, "ok    %s (%d records)\n", r.Name, r.Records)
			continue
		}
		fmt.Fprintf(out, "FAIL  %s\n        %s\n", r.Name, strings.Join(r.Differences, "\n        "))
	}
	if f.Tests != nil && passed == len(f.Tests) {
		fmt.Fprintf(out, "%d tests passed\n", passed)
	}
	for _, p := range f.Live {
		fmt.Fprintf(out, "%s %s: %s, %s in %s%s\n", p.Kind, printable(p.Account), p.Verdict, shownOf(p), p.Took.Round(time.Millisecond), onPages(p))
		if p.Verdict == probe.Refused {
			writeViolations(out, p.Violations)
			writeReply(out, p)
		}
	}
	rows := [][]string{{"KEY", "RUNNING", "FILE", "COUNTS AFTER A"}}
	for _, change := range f.Differences {
		rows = append(rows, []string{change.Key, cmp.Or(change.Old, "-"), cmp.Or(change.New, "-"), string(config.EffectOf(change.Key))})
	}
	switch {
	case len(rows) > 1:
		writeTable(out, rows)
	case f.Differences != nil:
		fmt.Fprintf(out, "%s runs what the file says; hidden values are not compared\n", running)
	}
}

// loadChecked reads the file, and tries all that serve would build. Where the tests
// of a mapping run there need not be keys.
func loadChecked(file string, onlyMapping bool) (config.Config, error) {
	cfg, err := config.Load(file, config.Options{KeysMayMiss: onlyMapping})
	if err == nil && !onlyMapping {
		err = app.Check(cfg)
	}
	return cfg, err
}

// checkUse refuses flags that cannot be meant, before anything is done: a flag that is
// passed over would let its user believe that something was checked.
func checkUse(c *cli.Command) error {
	accounts := c.String("buyer") != "" || c.String("seller") != ""
	switch {
	case c.Bool("live") && !accounts:
		return usagef("--live asks for one list of an account; give --buyer ID, --seller ID, or both")
	case !c.Bool("live") && accounts:
		return usagef("--buyer and --seller are asked for with --live only")
	case (c.Bool("all") || len(c.StringSlice("may-miss")) > 0) && !c.Bool("live"):
		return usagef("--all and --may-miss go with --live")
	case c.String("against") == "" && c.String("token-file") != "":
		return usagef("--token-file is sent with --against only")
	}
	return nil
}

// checkAccounts warns of keys whose account the legacy system cannot be asked for. Keys in Redis
// are looked at where Redis may be asked.
func checkAccounts(ctx context.Context, cfg config.Config, file string, live bool) (warnings config.Problems) {
	if cfg.Auth.Introspection != nil || cfg.Auth.Redis != nil && !live {
		return nil
	}
	store, err := openKeys(cfg)
	if err != nil {
		return nil // which is said elsewhere
	}
	defer func() { _ = store.close() }()
	client, err := upstream.New(cfg.Upstream, upstream.Options{})
	if err != nil {
		return nil
	}
	defer client.Close()
	_ = store.Keys(ctx, func(l auth.Listing) error { // as far as they can be read
		for _, k := range l.Keys {
			if why := client.Askable(k.Kind, k.Account); why != nil {
				warnings = append(warnings, config.Problem{File: file, Key: "upstream." + k.Kind, Message: fmt.Sprintf("key %s of account %q: %v", k.ID, k.Account, why)})
			}
		}
		return nil
	})
	return warnings
}

// checkEviction warns of a Redis that would drop the keys of callers, where it says so.
func checkEviction(ctx context.Context, cfg config.Config) (warning string) {
	if cfg.Auth.Redis == nil {
		return ""
	}
	client, err := redisclient.Open(cfg.Redis, redisclient.Options{})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := client.Bounded(ctx)
	defer cancel()
	return keysredis.EvictionWarning(ctx, client)
}

// checkLive probes one list for each account of the flags. It goes on after a list that would be
// refused, and stops at an error of the probe itself.
func checkLive(ctx context.Context, c *cli.Command, cfg config.Config) (all []*probe.Probe, err error) {
	has := cfg.Upstream.Kinds()
	kinds := slices.DeleteFunc([]string{"buyer", "seller"}, func(kind string) bool { return c.String(kind) == "" })
	for _, kind := range kinds {
		if !slices.Contains(has, kind) {
			return nil, usagef("the configuration has no upstream.%s; leave out --%s", kind, kind)
		}
	}
	var errs []error
	for _, kind := range kinds {
		seen, err := probe.Run(ctx, cfg.Upstream, upstream.Request{Kind: kind, Account: c.String(kind)},
			probe.Options{Records: 1, Beyond: c.Bool("all"), MayMiss: c.StringSlice("may-miss"), UserAgent: "inquiry-gateway/" + version})
		if err != nil {
			return all, err
		}
		all, errs = append(all, seen), append(errs, failureOf(seen))
	}
	return all, errors.Join(errs...)
}

// checkAgainst gives the keys whose values differ from what runs: an empty list, not nil, where
// none does. Values that are hidden on either side cannot be compared.
func checkAgainst(ctx context.Context, c *cli.Command, cfg config.Config) ([]config.Change, error) {
	address := c.String("against")
	token, err := readToken(c)
	if err != nil {
		return nil, err
	}
	running, err := opsListener{address: address, token: token}.ask(ctx, "/ops/config", nil)
	if err != nil {
		return nil, err
	}
	changes, err := config.Diff(string(running), cfg.Redacted())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	changes = append([]config.Change{}, changes...)
	if len(changes) > 0 {
		err = fmt.Errorf("%s runs something else: %s, hidden values not compared", address, plural(len(changes), "difference"))
	}
	return changes, err
}
