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
	"net/netip"
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

// opsFlags name the gateway that a command talks to.
func opsFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "use the gateway that runs with the configuration `FILE`"},
		&cli.StringSliceFlag{Name: "ops", Usage: "use the ops listener at `URL`; repeat it for several (ttl, purge)"},
		&cli.StringFlag{Name: "token-file", Usage: "with --ops: the `FILE` with the token of that listener"},
		jsonFlag(),
	}, more...)
}

// explainCommand asks a running gateway, because only that knows its cache. It fetches and counts nothing.
func explainCommand() *cli.Command {
	return &cli.Command{
		Name:  "explain",
		Usage: "report what a request for one list would get now, and why",
		Flags: opsFlags(
			&cli.StringFlag{Name: "key-id", Usage: "a request with the key of this `ID` (see keys list)"},
			&cli.StringFlag{Name: "account", Usage: "instead of a key: the `ID` of the account"},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller (default with --key-id: the key's)"},
			&cli.StringFlag{Name: "status", Usage: "the value of this filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "the value of this filter"},
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

// purgeCommand asks one node, which writes the purge to Redis for all others: they follow within a second. If
// Redis is unavailable, it asks each node that the flags name.
func purgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "purge",
		Usage: "remove the cached lists of an account or of a kind from all nodes",
		Flags: opsFlags(
			&cli.StringFlag{Name: "account", Usage: "the lists of the account with this `ID`, of both kinds"},
			&cli.StringFlag{Name: "kind", Usage: "the lists of all accounts of this kind: buyer or seller"},
			&cli.BoolFlag{Name: "soft", Usage: "only mark the lists stale: they are served while they are fetched"},
			&cli.DurationFlag{Name: "wait", Usage: "retry for this `DURATION` while Redis is unavailable"},
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
			default:
				if err := checkKind(kind); err != nil {
					return err
				}
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
					fmt.Fprintln(out, "on the nodes that were asked only, because there is no Redis to tell others")
				}
			})
		},
	}
}

// purgeNodes asks the nodes that the flags name, one after the other, until one has told all others through Redis.
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

// ttlCommand replays the look-ups of running nodes, or of a log. For a log it uses the cache policy of -c, which may differ from
// the one that ran.
func ttlCommand() *cli.Command {
	return &cli.Command{
		Name:  "ttl",
		Usage: "report what other ttls would do, by look-ups of running nodes or a log",
		Flags: opsFlags(
			&cli.StringFlag{Name: "log", Usage: "a log with look-ups (log.access_keys); - for standard input"},
			&cli.FloatFlag{Name: "max-outdated", Usage: "mark ttls with at most this `SHARE` (0 to 1) outdated"},
			&cli.FloatFlag{Name: "max-upstream-per-second", Usage: "mark ttls with at most this `RATE` of requests"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			goals := ttl.Goals{MaxOutdated: c.Float("max-outdated"), MaxUpstreamPerSecond: c.Float("max-upstream-per-second")}
			if goals.MaxOutdated < 0 || goals.MaxOutdated > 1 || goals.MaxUpstreamPerSecond < 0 {
				return usagef("--max-outdated must be a share from 0 to 1, such as 0.01, and --max-upstream-per-second 0 or more")
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
			err = errors.New("the response is not that of an ops listener")
		}
		if err != nil {
			return report, fmt.Errorf("%s: %w", node.address, err)
		}
		samples = append(samples, sample)
	}
	return ttl.Replay(samples...), err
}

// ttlFromLog replays a log by kind, because a line does not say whether its status has its own ttl. A log without look-ups
// is an error: it was probably written without log.access_keys.
func ttlFromLog(ctx context.Context, c *cli.Command) (report ttl.Report, err error) {
	if len(c.StringSlice("ops")) > 0 {
		return report, usagef("--log reads a file and --ops asks a gateway; give one of them")
	}
	policy := cache.DefaultConfig()
	if file := c.String("config"); file != "" {
		cfg, err := config.Load(file, onlySections("cache"))
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
		return report, fmt.Errorf("%s: none of the %d lines is a look-up; the gateway logs look-ups with log: {access_keys: hashed}", c.String("log"), summary.Lines)
	}
	report = ttl.Replay(sample)
	report.Log = &summary
	return report, err
}

// askJSON sends want as JSON in a POST, or a GET if it is nil, and decodes the response into reply.
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
		return fmt.Errorf("the response is not that of an ops listener: %w", err)
	}
	return nil
}

// listenerFlag returns the one listener that the flags name.
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

// listenerFlags returns the listeners that the flags name. With -c, address and token are those of the file.
func listenerFlags(c *cli.Command) (all []opsListener, err error) {
	file, urls := c.String("config"), c.StringSlice("ops")
	switch {
	case (file == "") == (len(urls) == 0):
		return nil, usagef("which gateway? give -c CONFIGURATION or --ops URL")
	case file != "" && c.String("token-file") != "":
		return nil, usagef("--token-file goes with --ops; with -c the token is that of ops.token_file")
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

// nodesOf returns the nodes behind the listeners that the flags name: see [nodeAddresses].
func nodesOf(ctx context.Context, c *cli.Command) (nodes []opsListener, err error) {
	all, err := listenerFlags(c)
	if err != nil {
		return nil, err
	}
	for _, listener := range all {
		u, err := url.Parse(listener.address)
		if err != nil || u.Hostname() == "" {
			nodes = append(nodes, listener) // without a host, such as of ops.listen :9090
			continue
		}
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", listener.address, err)
		}
		behind := nodeAddresses(addresses)
		for _, address := range behind {
			listener.dial = net.JoinHostPort(address.String(), cmp.Or(u.Port(), u.Scheme))
			nodes = append(nodes, listener)
		}
		if len(behind) == 0 {
			nodes = append(nodes, listener)
		}
	}
	return nodes, nil
}

// nodeAddresses returns the address of each node behind a host that has all these addresses; none if it is one node. It
// takes addresses of one family only, because a node that has both would count twice. All loopback addresses are one node.
func nodeAddresses(all []netip.Addr) (nodes []netip.Addr) {
	for _, address := range all {
		if address = address.Unmap(); !address.IsLoopback() && address.Is4() == all[0].Unmap().Is4() {
			nodes = append(nodes, address)
		}
	}
	if len(nodes) == 1 {
		return nil
	}
	return nodes
}

// readToken returns the token of --token-file, or "" without the flag.
func readToken(c *cli.Command) (string, error) {
	file, err := config.ReadFile("token-file", c.String("token-file"))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(file.Text()), nil
}

// opsListener is an ops listener of a running gateway.
type opsListener struct {
	address string // URL
	token   string // not sent if empty
	dial    string // host:port to connect to instead of that of address, if not empty
}

// listenerOf returns the ops listener of a configuration, as a program on the same machine reaches it. A listener on all
// addresses is reached by that address.
func listenerOf(file string) (o opsListener, err error) {
	cfg, err := config.Load(file, onlySections("ops"))
	if err != nil {
		return o, err
	}
	if strings.HasSuffix(cfg.Ops.Listen, ":0") {
		return o, fmt.Errorf("ops.listen %s stands for any free port; give the URL that serve logged with --ops", cfg.Ops.Listen)
	}
	o.address = "http://" + cfg.Ops.Listen
	o.token, _ = cfg.Ops.Tokens()
	return o, nil
}

// client returns a client that follows no redirect, so that no one else gets the token.
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

// unavailable is an error after which the same request may succeed.
type unavailable struct{ error }

// ask sends a GET, or with a body a POST, and returns the body of a 200. A 400 is a usageError.
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
		return nil, unavailable{fmt.Errorf("the ops listener does not respond: %w", err)}
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxOpsReply+1))
	switch text := printable(truncate(strings.TrimSpace(string(reply)), 500)); {
	case err != nil:
		return nil, fmt.Errorf("%s%s: %w", address, path, err)
	case res.StatusCode == http.StatusBadRequest:
		return nil, usageError{errors.New(text)}
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s requires a token: name its file by ops.token_file or --token-file", address)
	case res.StatusCode == http.StatusBadGateway:
		return nil, unavailable{errors.New(text)}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s responds with %s: %s", address, res.Status, text)
	case len(reply) > maxOpsReply:
		return nil, fmt.Errorf("the response of %s%s has more than %d bytes", address, path, maxOpsReply)
	}
	return reply, nil
}
