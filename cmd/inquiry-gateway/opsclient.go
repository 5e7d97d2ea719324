package main

import (
	"bytes"
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

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// Bounds of one question to a running gateway.
const (
	opsTimeout  = 10 * time.Second
	maxOpsReply = 4 << 20
)

// tokenFileFlag takes a file: a token in the command line would be in the list of
// processes.
func tokenFileFlag(when string) *cli.StringFlag {
	return &cli.StringFlag{Name: "token-file", Usage: when + "the `FILE` with the token of that listener"}
}

// opsFlags name the gateway that a command talks to.
func opsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "talk to the gateway that runs with the configuration `FILE`"},
		&cli.StringFlag{Name: "ops", Usage: "talk to the ops listener at `URL`"},
		tokenFileFlag("with --ops: "),
		&cli.BoolFlag{Name: "json", Usage: "answer in JSON"},
	}
}

// opsOf finds the ops listener that the flags mean. With -c the address and the token
// are those of the file, whether or not the gateway that runs has read it since.
func opsOf(c *cli.Command) (*opsClient, error) {
	file, address, token := c.String("config"), c.String("ops"), c.String("token-file")
	switch {
	case (file == "") == (address == ""):
		return nil, usagef("which gateway? give -c CONFIGURATION or --ops URL")
	case file != "" && token != "":
		return nil, usagef("--token-file goes with --ops; -c takes ops.token_file of the configuration")
	case address != "":
		return openOps(address, token)
	}
	loaded, err := config.Load(file, mappingOnly())
	if err != nil {
		return nil, err
	}
	if address, err = opsAddress(loaded.Config.Ops.Listen); err != nil {
		return nil, err
	}
	token, _ = loaded.Config.Ops.Tokens()
	return newOpsClient(address, token)
}

// opsAddress is where a program on the same machine reaches ops.listen: a listener on
// all addresses is asked on loopback.
func opsAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", fmt.Errorf("ops.listen %s is any free port; give the one that serve logged by --ops URL", listen)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// opsClient asks one ops listener. Each question has a connection of its own, and
// opsTimeout from the dialling to the last byte.
type opsClient struct {
	base, token string // without a token none is sent
	http        *http.Client
}

// openOps takes the token from a file; no file is no token.
func openOps(address, tokenFile string) (*opsClient, error) {
	file, err := config.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	return newOpsClient(address, strings.TrimSpace(file.Text()))
}

// newOpsClient asks nothing yet.
func newOpsClient(address, token string) (*opsClient, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("%q is not the URL of an ops listener; give one such as http://127.0.0.1:9090", address)
	}
	return &opsClient{strings.TrimRight(address, "/"), token, &http.Client{
		Timeout: opsTimeout,
		// The token is for this listener only, and one connection is enough.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// askOps asks the ops listener that the flags mean, as opsClient.ask does.
func askOps(ctx context.Context, c *cli.Command, path string, want, reply any) error {
	listener, err := opsOf(c)
	if err != nil {
		return err
	}
	return listener.ask(ctx, path, want, reply)
}

// ask sends want as JSON, or with nil nothing but a GET, and reads the answer, which is
// JSON too, into reply.
func (o *opsClient) ask(ctx context.Context, path string, want, reply any) error {
	var body []byte
	if want != nil {
		var err error
		if body, err = json.Marshal(want); err != nil {
			return err
		}
	}
	answer, err := o.do(ctx, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("the answer is not that of an ops listener: %w", err)
	}
	return nil
}

// do sends a GET, or with a body a POST, and returns the body of a 200. A 400 is wrong
// use: the listener says of what.
func (o *opsClient) do(ctx context.Context, path string, body []byte) ([]byte, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, o.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := o.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the gateway's ops listener does not answer: %w", err)
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxOpsReply+1))
	switch text := printable(cutAt(strings.TrimSpace(string(reply)), 500)); {
	case err != nil:
		return nil, fmt.Errorf("%s%s: %w", o.base, path, err)
	case res.StatusCode == http.StatusBadRequest:
		return nil, usageError{errors.New(text)}
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s wants a token: give its file by ops.token_file or --token-file", o.base)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s: %s", o.base, res.Status, text)
	case len(reply) > maxOpsReply:
		return nil, fmt.Errorf("%s%s answers more than %d bytes", o.base, path, maxOpsReply)
	}
	return reply, nil
}
