package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// checkCommand finds mistakes in files. It opens no port and no connection, so that it can run beside the gateway whose file
// it checks.
func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "report mistakes in a configuration, by file, line and key",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE` (default: ./" + defaultConfig + ")"},
			&cli.BoolFlag{Name: "print", Usage: "print the configuration that serve would run, in the form of /ops/config"},
			&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema of the configuration, and check nothing"},
			&cli.StringFlag{Name: "tests", Usage: "run the mapping tests in `FILE` on saved replies"},
			&cli.StringFlag{Name: "memory", Usage: "warn of what may not fit a memory limit of `SIZE`, such as 1GiB"},
			jsonFlag(),
		},
		Action: check,
	}
}

// checkResult is the result of check in JSON. Tests are left out if none were run.
type checkResult struct {
	File     string          `json:"file"`
	Good     bool            `json:"good"` // the file itself, whatever the tests say
	Problems config.Problems `json:"problems"`
	Warnings config.Problems `json:"warnings"`
	Tests    []probe.Result  `json:"tests,omitzero"`
}

// check reads the file, builds what serve would build, and runs the tests. Problems are also the command's error, with
// --json too.
func check(ctx context.Context, c *cli.Command) error {
	if c.Bool("schema") {
		_, err := c.Root().Writer.Write(config.Schema)
		return err
	}
	if c.Bool("print") && (c.Bool("json") || c.String("tests") != "") {
		return usagef("--print cannot be used with --json or --tests")
	}
	memory, err := setting.ParseBytes(cmp.Or(c.String("memory"), "1GiB"))
	if err != nil {
		return usagef("--memory %v", err)
	}
	file, err := configFile(c)
	if err != nil {
		return err
	}
	onlyMapping := c.String("tests") != "" // the keys file may be missing
	cfg, err := config.Load(file, config.Options{KeysMayMiss: onlyMapping})
	if err == nil && !onlyMapping {
		err = app.Check(cfg)
	}
	none := config.Problems{} // a list in JSON, not null
	found := checkResult{File: file, Good: err == nil, Problems: none, Warnings: append(none, cfg.Warnings()...)}
	if err != nil {
		problems, ok := errors.AsType[config.Problems](err)
		if !ok { // it is about the file as a whole
			problems = config.Problems{{Message: err.Error()}}
		}
		if found.Problems = append(none, problems...); c.Bool("json") {
			return errors.Join(show(c, found, nil), err)
		}
		writeWarnings(c.Root().ErrWriter, found.Warnings)
		return err
	}
	if c.String("memory") != "" {
		for _, text := range app.CheckMemory(cfg, memory) {
			found.Warnings = append(found.Warnings, config.Problem{File: file, Message: text})
		}
	}
	if cfg.Auth.KeysFile.Set() {
		found.Warnings = append(found.Warnings, unsupportedKeys(ctx, cfg, file)...)
	}
	if c.Bool("print") {
		writeWarnings(c.Root().ErrWriter, found.Warnings)
		_, err := io.WriteString(c.Root().Writer, cfg.Redacted())
		return err
	}
	if onlyMapping {
		found.Tests, err = runTests(ctx, cfg.Upstream, c.String("tests"))
	}
	return errors.Join(err, show(c, found, found.write))
}

// runTests runs the mapping tests in a file. The error is about the file, or says how many tests failed.
func runTests(ctx context.Context, cfg upstream.Config, file string) ([]probe.Result, error) {
	var tests []probe.Test
	if err := yamlfile.Read(file, &tests); err != nil {
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

// write prints the result for a person.
func (f *checkResult) write(out io.Writer) {
	writeWarnings(out, f.Warnings)
	fmt.Fprintf(out, "%s: good\n", f.File)
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
}

func writeWarnings(out io.Writer, warnings config.Problems) {
	for _, warning := range warnings {
		fmt.Fprintf(out, "warning: %v\n", warning)
	}
}

// unsupportedKeys returns warnings about keys whose account the legacy system cannot be asked for.
func unsupportedKeys(ctx context.Context, cfg config.Config, file string) (warnings config.Problems) {
	store, err := openKeys(cfg)
	if err != nil {
		return nil // reported elsewhere
	}
	defer func() { _ = store.close() }()
	client, err := upstream.New(cfg.Upstream, upstream.Options{})
	if err != nil {
		return nil
	}
	defer client.Close()
	_ = store.Keys(ctx, func(l auth.KeySet) error { // as far as they can be read
		for _, k := range l.Keys {
			if why := client.Askable(k.Kind, k.Account); why != nil {
				warnings = append(warnings, config.Problem{File: file, Key: "upstream." + k.Kind, Message: fmt.Sprintf("key %s of account %q: %v", k.ID, k.Account, why)})
			}
		}
		return nil
	})
	return warnings
}
