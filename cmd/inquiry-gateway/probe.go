package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/watch"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

// mappingOnly is for commands that need no callers: the keys file of a new
// installation may come later.
func mappingOnly() config.Options { return config.Options{MayMiss: []string{"auth.keys_file"}} }

// probeCommand is for whoever writes a mapping. It shows contents, which no log of
// the gateway does.
func probeCommand() *cli.Command {
	return &cli.Command{
		Name:  "probe",
		Usage: "show what one list of the legacy system looks like through the mapping",
		Description: "Reads one whole list, all pages and responses, or one saved reply, and shows for the first records\n" +
			"each field's path, raw and mapped value, how often each configured path was found, and every reason why\n" +
			"the gateway would refuse the list. What it prints holds contents and internal ids: it is for your\n" +
			"screen, not for a log. Fails (exit code 1) where the gateway would answer with an error, and where a\n" +
			"path that hides its mistake matched nothing (--may-miss).",
		Flags: []cli.Flag{
			configFlag(),
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` whose list is asked for", Required: true},
			&cli.StringFlag{Name: "status", Usage: "send this filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "send this filter"},
			&cli.StringFlag{Name: "sample", Usage: "read the saved reply in `FILE` (- for standard input) instead of asking"},
			&cli.IntFlag{Name: "records", Usage: "show so many records field by field", Value: 3},
			mayMissFlag(""),
			jsonFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "repeat it when the configuration or the saved reply changes, until Ctrl-C"},
		},
		Action: runProbe,
	}
}

// mayMissFlag names paths that no record needs to have.
func mayMissFlag(with string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: "may-miss", Usage: with + "a `PATH` of the mapping that may match nothing in this list"}
}

// runProbe refuses what cannot be meant, and probes once or again and again. Standard
// input can be read once only.
func runProbe(ctx context.Context, c *cli.Command) error {
	if kind := c.String("kind"); kind != "buyer" && kind != "seller" {
		return usagef("--kind is %q; give buyer or seller", kind)
	}
	if c.String("account") == "" || c.Int("records") < 1 {
		return usagef("--account wants an id, --records 1 or more")
	}
	if !c.Bool("watch") {
		return probeOnce(ctx, c)
	}
	if c.String("sample") == "-" {
		return usagef("--watch reads the reply again and again; give it as a file")
	}
	return watchProbe(ctx, c)
}

// watchEvery is how often the files are looked at.
const watchEvery = 200 * time.Millisecond

// watchProbe probes whenever a file has changed, until ctx ends. A failure is shown
// as the command would show it, and the next change is waited for.
func watchProbe(ctx context.Context, c *cli.Command) error {
	files := []string{c.String("config")}
	if sample := c.String("sample"); sample != "" {
		files = append(files, sample)
	}
	watcher := watch.New(files)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := probeOnce(ctx, c); err != nil && ctx.Err() == nil {
			fmt.Fprintf(c.Root().ErrWriter, "inquiry-gateway: %v\n", err)
		}
		for changed := false; !changed; {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				changed = len(watcher.Changed(now)) > 0
			}
		}
		fmt.Fprintf(c.Root().Writer, "\n--- changed, %s\n\n", time.Now().Format(time.TimeOnly))
	}
}

// probeOnce shows all that was found before it fails: the reason is in it.
func probeOnce(ctx context.Context, c *cli.Command) error {
	loaded, err := config.Load(c.String("config"), mappingOnly())
	if err != nil {
		return err
	}
	p, err := openProbe(c, loaded.Config)
	if err != nil {
		return err
	}
	defer p.client.Close()
	opts := upstream.ProbeOptions{Records: c.Int("records"), Whole: true}
	if file := c.String("sample"); file != "" {
		if opts.Sample, err = readSample(file, loaded.Config.Upstream.MaxResponseBytes); err != nil {
			return err
		}
	}
	seen, err := p.probe(ctx, upstream.Request{
		Kind: c.String("kind"), Account: c.String("account"), Status: c.String("status"), InquiryType: c.String("inquiry-type"),
	}, opts)
	if err != nil {
		return err
	}
	err = show(c, seen, func(out io.Writer) { writeProbe(out, seen) })
	return errors.Join(err, seen.failure())
}

// prober asks the legacy system of one configuration, as the gateway would: with its
// bounds, its credentials and its repeats. Its client must be closed.
type prober struct {
	client  *upstream.Client
	section upstream.Config
	mayMiss []string // paths that may match nothing
}

// openProbe builds the client that the gateway would use, with its timeouts and
// credentials, but without its metrics.
func openProbe(c *cli.Command, cfg config.Config) (prober, error) {
	client, err := upstream.New(cfg.Upstream, upstream.Options{UserAgent: "inquiry-gateway/" + version})
	return prober{client, cfg.Upstream, c.StringSlice("may-miss")}, err
}

// probed is a Probe with what the gateway would make of it.
type probed struct {
	*upstream.Probe
	Violations []violation `json:"violations"`
	Verdict    string      `json:"verdict"` // good; refused: the caller would get an error; doubtful: not what it seems
	Reason     string      `json:"reason,omitempty"`
	LeftOut    int         `json:"left_out"` // records that break a rule and are dropped, as the configuration says
}

// violation tells the value that broke a rule, too.
type violation struct {
	mapping.Violation
	Raw string `json:"raw"` // JSON as it came, shortened; empty: nothing there
}

// The verdicts of a probe.
const (
	verdictGood     = "good"
	verdictRefused  = "refused"
	verdictDoubtful = "doubtful"
)

// probe asks once. All records are looked at, so that each violation can show its
// value; only the first ones are returned.
func (p prober) probe(ctx context.Context, want upstream.Request, opts upstream.ProbeOptions) (probed, error) {
	show := opts.Records
	opts.Records = math.MaxInt // every record may have a value to tell of
	seen, err := p.client.Probe(ctx, want, opts)
	if err != nil {
		return probed{}, err
	}
	if seen.Request != nil {
		seen.Request.URL, seen.Request.Body = hideSecrets(seen.Request.URL), hideSecrets(seen.Request.Body)
	}
	seen.NextPage = hideSecrets(seen.NextPage)
	result := probed{Probe: seen, Violations: violations(seen), Verdict: verdictGood}
	seen.Records = seen.Records[:min(len(seen.Records), show)]
	if result.Reason, result.LeftOut = seen.Refusal(*p.section.Endpoint(want.Kind)); result.Reason != "" {
		result.Verdict = verdictRefused
	}
	if result.Verdict == verdictGood {
		result.doubt(p.mayMiss, seen.Whole || opts.Sample != nil)
	}
	return result, nil
}

// violations joins what is wrong with the values it is about. It is an empty list, not
// nil, where nothing is wrong: it is shown as JSON.
func violations(p *upstream.Probe) []violation {
	type place struct {
		record int
		field  string
	}
	raw := map[place]string{}
	for _, r := range p.Records {
		for _, f := range r.Fields {
			raw[place{r.Number, f.Field}] = f.Raw
		}
	}
	list := []violation{}
	for _, v := range p.Violations {
		list = append(list, violation{v, raw[place{v.Record, v.Field}]})
	}
	return list
}

// doubt gathers why a list that would be served may not be what it seems: a wrong path of
// a field with a default gives a list that is good and says nothing. mayMiss has the paths,
// or keys, that the user knows of. whole: all of the list was read; of a part of it some
// doubts say nothing.
func (p *probed) doubt(mayMiss []string, whole bool) {
	var found []string
	for _, d := range p.Doubts {
		if !slices.Contains(mayMiss, d.Path) && (whole || !d.Whole) {
			found = append(found, d.Text)
		}
	}
	if len(found) > 0 {
		p.Verdict, p.Reason = verdictDoubtful, strings.Join(found, "; ")
	}
}

// failure is the error of a command whose probe found a list that would be
// refused, or not be what it seems.
func (p probed) failure() error {
	switch p.Verdict {
	case verdictGood:
		return nil
	case verdictDoubtful:
		return fmt.Errorf("%s %s: the gateway would serve this list, but is it what it seems? %s (mend it, try an account that has it, or give --may-miss with the path or key)",
			p.Kind, printable(p.Account), printable(p.Reason))
	}
	return fmt.Errorf("%s %s: the gateway would refuse this list: %s", p.Kind, printable(p.Account), printable(p.Reason))
}

// readSample reads a saved reply of at most limit bytes, as the gateway would: a larger
// one is an error, not cut. What it returns is never nil without an error.
func readSample(file string, limit int64) ([]byte, error) {
	data, err := readInput("--sample", file, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("--sample %s is larger than upstream.max_response_bytes (%d): the gateway would refuse it", file, limit)
	}
	if data == nil {
		data = []byte{} // nil would mean: ask
	}
	return data, err
}

// readInput reads at most limit bytes of a file, or of standard input for "-"; what
// comes after is not read, and no error. flag names it in errors.
func readInput(flag, file string, limit int64) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return data, nil
}

// shownOf says how many records there are, and how many of them a caller would see.
func shownOf(p *upstream.Probe) string {
	if p.Problem != "" || len(p.Served) == p.Items {
		return plural(p.Items, "record")
	}
	return fmt.Sprintf("%s, %d shown", plural(p.Items, "record"), len(p.Served))
}

// extent says how much of a list was read, where that is not plain.
func extent(p *upstream.Probe) string {
	switch {
	case p.Whole && p.Replies > 1:
		return ", on " + plural(p.Replies, "page")
	case !p.Whole && p.NextPage != "":
		return "; this is the first page only, give --all for the whole list"
	}
	return ""
}
