package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/mappingtest"
	"inquiry-gateway/deploy"
)

// checkCommand finds mistakes before serve would. It opens no port, so that it can
// run beside the gateway whose file it checks.
func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say what is wrong with a configuration, by file, line and key",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`"},
			&cli.BoolFlag{Name: "print", Usage: "print the configuration in force, defaults included and secrets hidden"},
			&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema of the configuration, for an editor, and check nothing"},
			&cli.StringFlag{Name: "tests", Usage: "run the tests of the mapping in `FILE`, with saved replies"},
			&cli.BoolFlag{Name: "live", Usage: "ask the legacy system for one list of each kind, for --buyer and --seller"},
			&cli.StringFlag{Name: "buyer", Usage: "with --live: the account `ID` of a buyer"},
			&cli.StringFlag{Name: "seller", Usage: "with --live: the account `ID` of a seller"},
			&cli.BoolFlag{Name: "all", Usage: "with --live: read all pages and responses, and fail where a path that hides its mistake matches nothing"},
			mayMissFlag("with --all: "),
			&cli.StringFlag{Name: "against", Usage: "show what differs from the gateway whose ops listener is at `URL`; fails if anything does"},
			&cli.BoolFlag{Name: "answers", Usage: "with --against: show what the mappings of the file would make of the replies that the gateway keeps; fails if anything differs"},
			tokenFileFlag("with --against: "),
			&cli.BoolFlag{Name: "json", Usage: "answer in JSON: what is wrong with the file, and what is doubtful"},
		},
		Action: check,
	}
}

// check reads the file and builds what serve would build. Only --live and
// --against ask another program, and only when all else is good.
func check(ctx context.Context, c *cli.Command) error {
	if err := checkUse(c); err != nil {
		return err
	}
	file, out := c.String("config"), c.Root().Writer
	if c.Bool("schema") {
		_, err := out.Write(deploy.ConfigSchema)
		return err
	}
	loaded, err := loadChecked(file, c.String("tests") != "")
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
		live = liveCheck{c.String("buyer"), c.String("seller"), c.Bool("all"), c.StringSlice("may-miss")}.run(ctx, loaded.Config, out)
	}
	if url := c.String("against"); url != "" {
		against = checkAgainst(ctx, loaded.Config, url, c.String("token-file"), out)
		if c.Bool("answers") {
			against = errors.Join(against, checkAnswers(ctx, loaded.Config, url, c.String("token-file"), out))
		}
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

// checkUse refuses flags that cannot be meant, before anything is done.
func checkUse(c *cli.Command) error {
	accounts := c.String("buyer") != "" && c.String("seller") != ""
	switch {
	case c.String("config") == "" && !c.Bool("schema"):
		return usagef("give the configuration: -c FILE")
	case c.Bool("json") && (c.Bool("print") || c.Bool("live") || c.String("against") != "" || c.String("tests") != ""):
		return usagef("--json is about the file alone; leave out --print, --tests, --live and --against")
	case c.Bool("live") && !accounts:
		return usagef("--live asks for one list of each kind; give --buyer ID and --seller ID")
	case !c.Bool("live") && (c.String("buyer") != "" || c.String("seller") != ""):
		return usagef("--buyer and --seller are asked for with --live only")
	case c.Bool("all") && !c.Bool("live") || len(c.StringSlice("may-miss")) > 0 && !c.Bool("all"):
		return usagef("--all goes with --live, and --may-miss with --all")
	case c.String("against") == "" && c.Bool("answers"):
		return usagef("--answers asks a running gateway; give --against URL")
	case c.String("against") == "" && c.String("token-file") != "":
		return usagef("--token-file is sent with --against only")
	}
	return nil
}

// checkTests runs the tests of the mapping. It asks nobody.
func checkTests(ctx context.Context, cfg config.Config, file string, out io.Writer) error {
	results, err := mappingtest.Run(ctx, cfg.Upstream, file)
	if err != nil {
		return err
	}
	return mappingtest.Write(out, results)
}

// checkAgainst compares what the file says with what runs. Values that are
// hidden on either side cannot be compared.
func checkAgainst(ctx context.Context, cfg config.Config, url, tokenFile string, out io.Writer) error {
	ops, err := openOps(url, tokenFile)
	if err != nil {
		return err
	}
	running, err := ops.do(ctx, http.MethodGet, "/ops/config", nil)
	if err != nil {
		return err
	}
	changes := config.Diff(string(running), cfg.Redacted())
	if len(changes) == 0 {
		_, err = fmt.Fprintf(out, "%s runs what the file says; hidden values are not compared\n", url)
		return err
	}
	rows := [][]string{{"KEY", "RUNNING", "FILE", "COUNTS AFTER A"}}
	for _, change := range changes {
		rows = append(rows, []string{change.Key, cmp.Or(change.Old, "-"), cmp.Or(change.New, "-"), string(change.Effect())})
	}
	if err := writeTable(out, rows); err != nil {
		return err
	}
	return fmt.Errorf("%s runs something else: %s, hidden values not compared", url, plural(len(changes), "difference"))
}

// findings are what check found, for a program.
type findings struct {
	File     string    `json:"file"`
	Good     bool      `json:"good"`
	Problems []finding `json:"problems"`
	Warnings []finding `json:"warnings"`
}

// finding is one config.Problem.
type finding struct {
	Line    int    `json:"line,omitempty"` // from 1; none: the file as a whole
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// findingsOf takes an error of loading apart. Any other error is about the file as
// a whole.
func findingsOf(file string, warnings config.Problems, err error) findings {
	all := findings{File: file, Good: err == nil, Problems: []finding{}, Warnings: []finding{}}
	for _, w := range warnings {
		all.Warnings = append(all.Warnings, finding{w.Line, w.Column, w.Key, w.Message})
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			all.Problems = append(all.Problems, finding{p.Line, p.Column, p.Key, p.Message})
		}
	} else if err != nil {
		all.Problems = append(all.Problems, finding{Message: err.Error()})
	}
	return all
}
