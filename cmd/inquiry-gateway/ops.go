package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttl"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway/ops"
)

// Bounds of one request to a running gateway.
const (
	opsTimeout  = 10 * time.Second
	maxOpsReply = 128 << 20 // a quarter of a million look-ups take 50 MB
)

// tokenFileFlag takes a file: a token in the command line would be in the list of
// processes.
func tokenFileFlag(when string) *cli.StringFlag {
	return &cli.StringFlag{Name: "token-file", Usage: when + "the `FILE` with the token of that listener"}
}

// opsFlags name the gateway that a command talks to.
func opsFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "talk to the gateway that runs with the configuration `FILE`"},
		&cli.StringSliceFlag{Name: "ops", Usage: "talk to the ops listener at `URL`; ttl, purge: to several"},
		tokenFileFlag("with --ops: "),
		jsonFlag(),
	}, more...)
}

// explainCommand asks the running gateway, because only that knows what its cache
// holds. Nothing is fetched or counted by it.
func explainCommand() *cli.Command {
	return &cli.Command{
		Name:  "explain",
		Usage: "say what a request for one list would get now, and why",
		Flags: opsFlags(
			&cli.StringFlag{Name: "key-id", Usage: "the request of the key with this `ID` (keys list shows them)"},
			&cli.StringFlag{Name: "account", Usage: "without a key: the account's `ID`"},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller; with --key-id the key's own if left out"},
			&cli.StringFlag{Name: "status", Usage: "the request's filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "the request's filter"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			query := url.Values{}
			for _, flag := range []string{"key-id", "account", "kind", "status", "inquiry-type"} {
				if c.IsSet(flag) {
					query.Set(strings.ReplaceAll(flag, "-", "_"), c.String(flag))
				}
			}
			var x ops.Explanation
			listener, err := listenerFlag(c)
			if err != nil {
				return err
			}
			if err := listener.askJSON(ctx, "/ops/explain?"+query.Encode(), nil, &x); err != nil {
				return err
			}
			return show(c, x, func(out io.Writer) {
				p := x.Prediction
				fmt.Fprintf(out, "%s\n%s\n\n", strings.TrimSpace(fmt.Sprintf("%s: %d %s", p.Outcome, p.HTTPStatus, p.Code)), printable(p.Text))
				writeFields(out, x)
			})
		},
	}
}

// purgeCommand asks one node, which writes the purge to Redis for all others: a second after it
// has succeeded no node serves what it had before. If Redis does not take it, each node that the flags
// name has it all the same.
func purgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "purge",
		Usage: "have no node serve the cached lists of an account or of a kind any more",
		Flags: opsFlags(
			&cli.StringFlag{Name: "account", Usage: "all lists of the account with this `ID`, of either kind"},
			&cli.StringFlag{Name: "kind", Usage: "all lists of buyers, or all of sellers"},
			&cli.BoolFlag{Name: "soft", Usage: "end the ttl of the lists: they are served stale while fetched again"},
			&cli.DurationFlag{Name: "wait", Usage: "repeat a purge that Redis does not take, for this `DURATION`"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			kind, account, soft := c.String("kind"), c.String("account"), c.Bool("soft")
			done := struct {
				ops.PurgeRequest
				ops.PurgeReply
			}{PurgeRequest: ops.PurgeRequest{Kinds: []string{kind}, Soft: soft}}
			what := "all lists of the kind " + kind
			switch {
			case (kind == "") == (account == ""):
				return usagef("purge what? give --account ID or --kind buyer|seller")
			case account != "":
				what, done.PurgeRequest = "all lists of the account "+printable(account), ops.PurgeRequest{Accounts: []string{account}, Soft: soft}
			case kind != cache.KindBuyer && kind != cache.KindSeller:
				return usagef("--kind is %q; give buyer or seller", kind)
			}
			end := time.Now().Add(c.Duration("wait"))
			for {
				var err error
				done.PurgeReply, err = purgeNodes(ctx, c, done.PurgeRequest)
				if err == nil {
					break
				}
				if _, passing := errors.AsType[unavailable](err); !passing || time.Now().After(end) {
					return err
				}
				select {
				case <-ctx.Done():
					return err
				case <-time.After(time.Second):
				}
			}
			return show(c, done, func(out io.Writer) {
				fmt.Fprintf(out, "purged: %s\n", what)
				if done.Reached == ops.ReachedNode {
					fmt.Fprintln(out, "on the nodes that were asked: without Redis it reaches no other")
				}
			})
		},
	}
}

// purgeNodes asks the nodes that the flags name, one after the other, until one has told the fleet.
// Without Redis, all of them have to do it.
func purgeNodes(ctx context.Context, c *cli.Command, want ops.PurgeRequest) (reply ops.PurgeReply, failed error) {
	nodes, err := nodesOf(ctx, c)
	if err != nil {
		return reply, err
	}
	for _, node := range nodes {
		if err := node.askJSON(ctx, "/ops/purge", want, &reply); err != nil {
			failed = errors.Join(failed, err)
		} else if reply.Reached == ops.ReachedFleet {
			return reply, nil
		}
	}
	return reply, failed
}

// ttlCommand answers from the look-ups of running nodes, or of a log. From a log the answer is for
// the policy of -c, which need not be the one that ran.
func ttlCommand() *cli.Command {
	return &cli.Command{
		Name:  "ttl",
		Usage: "say what another ttl would do: from running nodes, or from a log",
		Flags: opsFlags(
			&cli.StringFlag{Name: "log", Usage: "read the log `FILE` (- for standard input) of log.access_keys"},
			&cli.FloatFlag{Name: "max-outdated", Usage: "mark ttls that leave at most this `SHARE` outdated"},
			&cli.FloatFlag{Name: "max-upstream-per-second", Usage: "mark ttls with at most this `NUMBER` of requests"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			goals := ttl.Goals{MaxOutdated: c.Float("max-outdated"), MaxUpstreamPerSecond: c.Float("max-upstream-per-second")}
			if goals.MaxOutdated < 0 || goals.MaxOutdated > 1 || goals.MaxUpstreamPerSecond < 0 {
				return usagef("--max-outdated is a share between 0 and 1, such as 0.01, and --max-upstream-per-second a number of requests")
			}
			report, err := ttlReport(ctx, c)
			if err != nil {
				return err
			}
			report.Judge(goals)
			return show(c, report, func(out io.Writer) { _ = report.WriteTable(out) }) // into memory
		},
	}
}

// ttlReport replays the look-ups of a log, or of all nodes that the flags name.
func ttlReport(ctx context.Context, c *cli.Command) (report ttl.Report, err error) {
	if c.String("log") != "" {
		return ttlFromLog(ctx, c)
	}
	nodes, err := nodesOf(ctx, c)
	var samples []ttl.Sample
	for _, node := range nodes {
		var reply []byte
		if reply, err = node.ask(ctx, "/ops/lookups", nil); err != nil {
			return report, err
		}
		sample, summary, err := ttl.Read(bytes.NewReader(reply), nil)
		if err == nil && (sample.Groups == nil || summary.Bad > 0) {
			err = errors.New("the answer is not that of an ops listener")
		}
		if err != nil {
			return report, fmt.Errorf("%s: %w", node.address, err)
		}
		samples = append(samples, sample)
	}
	return ttl.Replay(samples...), err
}

// ttlFromLog reads a log by kind: a line does not say whether its status has a
// ttl of its own. A log without a look-up is an error, because it was probably written
// without log.access_keys, and a table of zeros would look like an answer.
func ttlFromLog(ctx context.Context, c *cli.Command) (report ttl.Report, err error) {
	if len(c.StringSlice("ops")) > 0 {
		return report, usagef("--log reads a file and --ops asks a gateway; give one of them")
	}
	policy := cache.DefaultConfig()
	if file := c.String("config"); file != "" {
		cfg, err := config.Load(file, sections("cache"))
		if err != nil {
			return report, err
		}
		policy = cfg.Cache
	}
	in, err := openInput(ctx, c.String("log"))
	if err != nil {
		return report, err
	}
	defer in.Close()
	sample, summary, err := ttl.Read(in, ttl.GroupsOf(policy, false, cache.KindBuyer, cache.KindSeller))
	if err == nil && summary.Lookups == 0 {
		return report, fmt.Errorf("%s has no look-up among its %d lines; the gateway writes them with log: {access_keys: hashed}", c.String("log"), summary.Lines)
	}
	report = ttl.Replay(sample)
	report.Log = &summary
	return report, err
}

// askJSON POSTs want as JSON, or GETs where that is nil, and reads the answer into reply.
func (o opsListener) askJSON(ctx context.Context, path string, want, reply any) (err error) {
	var body []byte
	if want != nil {
		if body, err = json.Marshal(want); err != nil {
			return err
		}
	}
	answer, err := o.ask(ctx, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("the answer is not that of an ops listener: %w", err)
	}
	return nil
}

// listenerFlag is the one listener that the flags name.
func listenerFlag(c *cli.Command) (opsListener, error) {
	all, err := listenerFlags(c)
	if err == nil && len(all) > 1 {
		err = usagef("give one --ops URL")
	}
	if err != nil {
		return opsListener{}, err
	}
	return all[0], nil
}

// listenerFlags are the listeners that the flags name. With -c address and token are those of the file.
func listenerFlags(c *cli.Command) (all []opsListener, err error) {
	file, urls := c.String("config"), c.StringSlice("ops")
	switch {
	case (file == "") == (len(urls) == 0):
		return nil, usagef("which gateway? give -c CONFIGURATION or --ops URL")
	case file != "" && c.String("token-file") != "":
		return nil, usagef("--token-file goes with --ops; -c takes ops.token_file of the configuration")
	case file != "":
		listener, err := listenerOf(file)
		return []opsListener{listener}, err
	}
	token, err := readToken(c)
	for _, address := range urls {
		all = append(all, opsListener{address: address, token: token})
	}
	return all, err
}

// nodesOf are the nodes behind the listeners that the flags name: one for each address of a host's
// name. All addresses of the loopback are one.
func nodesOf(ctx context.Context, c *cli.Command) (nodes []opsListener, err error) {
	all, err := listenerFlags(c)
	if err != nil {
		return nil, err
	}
	for _, listener := range all {
		u, err := url.Parse(listener.address)
		if err != nil || u.Hostname() == "" {
			nodes = append(nodes, listener) // ask says what is wrong
			continue
		}
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", listener.address, err)
		}
		for _, address := range addresses {
			if len(addresses) > 1 && !address.IsLoopback() {
				port := cmp.Or(u.Port(), u.Scheme)
				listener.dial = net.JoinHostPort(address.Unmap().String(), port)
				nodes = append(nodes, listener)
			}
		}
		if listener.dial == "" {
			nodes = append(nodes, listener)
		}
	}
	return nodes, nil
}

// readToken takes the token from --token-file; no file is no token.
func readToken(c *cli.Command) (string, error) {
	file, err := config.ReadFile("token-file", c.String("token-file"))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(file.Text()), nil
}

// opsListener is where a gateway is asked.
type opsListener struct {
	address string // URL
	token   string // empty: none is sent
	dial    string // host:port of the one node to ask; empty: what address resolves to
}

// listenerOf is where a program on the same machine reaches ops.listen of a configuration. A
// listener on all addresses is dialled by them, which is the machine itself.
func listenerOf(file string) (o opsListener, err error) {
	cfg, err := config.Load(file, sections("ops"))
	if err != nil {
		return o, err
	}
	if strings.HasSuffix(cfg.Ops.Listen, ":0") {
		return o, fmt.Errorf("ops.listen %s is any free port; give the one that serve logged by --ops URL", cfg.Ops.Listen)
	}
	o.address = "http://" + cfg.Ops.Listen
	o.token, _ = cfg.Ops.Tokens()
	return o, nil
}

// client follows no redirect, so that the token goes to the listener alone.
func (o opsListener) client() *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	if o.dial != "" {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, o.dial)
		}
	}
	return &http.Client{
		Timeout: opsTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unavailable is an error after which the same question may succeed.
type unavailable struct{ error }

// ask sends a GET, or with a body a POST, and returns the body of a 200. A 400 is wrong
// use: the listener says of what.
func (o opsListener) ask(ctx context.Context, path string, body []byte) ([]byte, error) {
	u, err := url.Parse(o.address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("%q is not the URL of an ops listener; give one such as http://127.0.0.1:9090", o.address)
	}
	address, method := strings.TrimRight(o.address, "/"), http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := o.client().Do(r)
	if err != nil {
		return nil, unavailable{fmt.Errorf("the gateway's ops listener does not answer: %w", err)}
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxOpsReply+1))
	switch text := printable(truncate(strings.TrimSpace(string(reply)), 500)); {
	case err != nil:
		return nil, fmt.Errorf("%s%s: %w", address, path, err)
	case res.StatusCode == http.StatusBadRequest:
		return nil, usageError{errors.New(text)}
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s wants a token: give its file by ops.token_file or --token-file", address)
	case res.StatusCode == http.StatusBadGateway:
		return nil, unavailable{errors.New(text)}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s: %s", address, res.Status, text)
	case len(reply) > maxOpsReply:
		return nil, fmt.Errorf("%s%s answers more than %d bytes", address, path, maxOpsReply)
	}
	return reply, nil
}
