package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/mappingtest"
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
			&cli.BoolFlag{Name: "live", Usage: "ask the legacy system for one list of each kind, for --buyer and --seller"},
			&cli.StringFlag{Name: "buyer", Usage: "with --live: the account `ID` of a buyer"},
			&cli.StringFlag{Name: "seller", Usage: "with --live: the account `ID` of a seller"},
			&cli.BoolFlag{Name: "all", Usage: "with --live: read all pages and responses, and fail where a path that hides its mistake matches nothing"},
			mayMissFlag("with --all: "),
			&cli.StringFlag{Name: "against", Usage: "show what differs from the gateway whose ops listener is at `URL`; fails if anything does"},
			tokenFileFlag("with --against: "),
			&cli.BoolFlag{Name: "json", Usage: "answer in JSON: what is wrong with the file, and what is doubtful"},
		},
		Action: check,
	}
}

// check reads the file and builds what serve would build. Only --live and
// --against ask another program, and only when all else is good. With --json what is
// wrong with the file is on standard output, and is the command's error all the same:
// the exit code does not depend on the form of the answer.
func check(ctx context.Context, c *cli.Command) error {
	if err := checkUse(c); err != nil {
		return err
	}
	out := c.Root().Writer
	if c.Bool("schema") {
		_, err := out.Write(config.Schema)
		return err
	}
	file, err := configFile(c)
	if err != nil {
		return err
	}
	loaded, err := loadChecked(file, c.String("tests") != "")
	if c.Bool("failures") && err == nil {
		rows := failuresOf(loaded.Config)
		return show(c, rows, func(out io.Writer) { writeFailures(out, loaded.Config, rows) })
	}
	if c.Bool("json") {
		return errors.Join(show(c, findingsOf(file, loaded.Warnings, err), nil), err)
	}
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintf(out, "warning: %v\n", warning)
	}
	if c.Bool("print") {
		fmt.Fprint(out, loaded.Config.Redacted())
	}
	if _, err = fmt.Fprintf(out, "%s: good\n", file); err != nil {
		return err
	}
	var tests, live, against error // one is tried whatever the others find
	if name := c.String("tests"); name != "" {
		tests = checkTests(ctx, loaded.Config, name, out)
	}
	if c.Bool("live") {
		live = checkLive(ctx, c, loaded.Config)
	}
	if c.String("against") != "" {
		against = checkAgainst(ctx, c, loaded.Config)
	}
	return errors.Join(tests, live, against)
}

// loadChecked reads the file, and tries all that serve would build. Where the tests
// of a mapping run there need not be keys.
func loadChecked(file string, onlyMapping bool) (config.Loaded, error) {
	if onlyMapping {
		return config.Load(file, mappingOnly())
	}
	loaded, err := config.Load(file, config.Options{})
	if err == nil {
		err = app.Check(loaded.Config)
	}
	return loaded, err
}

// checkUse refuses flags that cannot be meant, before anything is done: a flag that is
// passed over would let its user believe that something was checked.
func checkUse(c *cli.Command) error {
	accounts := c.String("buyer") != "" || c.String("seller") != ""
	switch {
	case c.Bool("json") && (c.Bool("print") || c.Bool("live") || c.String("against") != "" || c.String("tests") != ""):
		return usagef("--json is about the file alone; leave out --print, --tests, --live and --against")
	case c.Bool("live") && !accounts:
		return usagef("--live asks for one list of each kind; give --buyer ID and --seller ID, or the one that the configuration has")
	case !c.Bool("live") && accounts:
		return usagef("--buyer and --seller are asked for with --live only")
	case c.Bool("all") && !c.Bool("live") || len(c.StringSlice("may-miss")) > 0 && !c.Bool("all"):
		return usagef("--all goes with --live, and --may-miss with --all")
	case c.String("against") == "" && c.String("token-file") != "":
		return usagef("--token-file is sent with --against only")
	}
	return nil
}

// checkTests runs the tests of the mapping. It asks nobody, and shows all results before
// it fails.
func checkTests(ctx context.Context, cfg config.Config, file string, out io.Writer) error {
	results, err := mappingtest.Run(ctx, cfg.Upstream, file)
	if err != nil {
		return err
	}
	return mappingtest.Write(out, results)
}

// checkAgainst compares what the file says with what runs.
func checkAgainst(ctx context.Context, c *cli.Command, cfg config.Config) error {
	gateway, err := openOps(c.String("against"), c.String("token-file"))
	if err != nil {
		return err
	}
	return gateway.compare(ctx, cfg, c.Root().Writer)
}

// compare shows the keys whose values differ. Values that are hidden on either side
// cannot be compared.
func (o *opsClient) compare(ctx context.Context, cfg config.Config, out io.Writer) error {
	running, err := o.do(ctx, "/ops/config", nil)
	if err != nil {
		return err
	}
	changes := config.Diff(string(running), cfg.Redacted())
	if len(changes) == 0 {
		_, err = fmt.Fprintf(out, "%s runs what the file says; hidden values are not compared\n", o.base)
		return err
	}
	rows := [][]string{{"KEY", "RUNNING", "FILE", "COUNTS AFTER A"}}
	for _, change := range changes {
		rows = append(rows, []string{change.Key, cmp.Or(change.Old, "-"), cmp.Or(change.New, "-"), string(change.Effect())})
	}
	writeTable(out, rows)
	return fmt.Errorf("%s runs something else: %s, hidden values not compared", o.base, plural(len(changes), "difference"))
}

// findings are what check found, for a program. Both lists are never null.
type findings struct {
	File     string          `json:"file"`
	Good     bool            `json:"good"`
	Problems config.Problems `json:"problems"`
	Warnings config.Problems `json:"warnings"`
}

// findingsOf takes an error of loading apart. Any other error is about the file as
// a whole.
func findingsOf(file string, warnings config.Problems, err error) findings {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok && err != nil {
		problems = config.Problems{{Message: err.Error()}}
	}
	none := config.Problems{} // a list in JSON, not null
	return findings{file, err == nil, append(none, problems...), append(none, warnings...)}
}
