package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/mappingtest"
	"inquiry-gateway/gateway/ops"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

// How much of a trial is shown. The rest is counted.
const (
	shownRecords    = 20
	shownViolations = 100
	shownPaths      = 200
	secondCalls     = 10 // records whose details and responses are asked for
)

// trial is what the console's playground shows of a mapping and a reply.
type trial struct {
	Problems []mistake `json:"problems"` // of the mapping; with them all else is empty
	Refused  string    `json:"refused"`  // why a caller would get an error; empty: a list
	LeftOut  int       `json:"left_out"` // records that the configuration drops
	Items    int       `json:"items"`
	// List is the public answer, of the first records that can be mapped and are the
	// account's. Ids are cut out of its texts.
	List       json.RawMessage           `json:"list"`
	Records    []mapping.ExplainedRecord `json:"records"`
	Violations []mapping.Violation       `json:"violations"`
	Owner      mapping.OwnerCheck        `json:"owner"`
	Removed    mapping.RemovedTexts      `json:"removed"`
	Uncovered  []mapping.Uncovered       `json:"uncovered"`
	Unused     []mapping.UnusedPath      `json:"unused"`
	Unsaved    []string                  `json:"unsaved"` // second calls that no saved reply is for
}

// mistake is one in the mapping's text.
type mistake struct {
	Line    int    `json:"line"` // from 1; 0: the text as a whole
	Key     string `json:"key"`
	Message string `json:"message"`
}

// trial gives the ops listener what its playground and check --answers need. Each call
// uses what is in force at its moment.
func (a *App) trial() ops.Trial {
	return ops.Trial{
		Mapping: func(kind string) string { return a.current.Load().cfg.EndpointText(kind) },
		Try: func(ctx context.Context, want ops.TryRequest) (any, error) {
			return tryMapping(ctx, a.current.Load().cfg.Upstream, want)
		},
		Answers: a.answers,
		Sample:  a.sample,
	}
}

// tryMapping maps a saved reply with a mapping that does not run. It asks nobody and
// needs no secret.
func tryMapping(ctx context.Context, section upstream.Config, want ops.TryRequest) (*trial, error) {
	section.Auth, section.TLS = upstream.AuthConfig{}, upstream.DefaultConfig().TLS
	section, err := config.WithEndpoint(section, want.Kind, want.Mapping)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		t := &trial{}
		for _, p := range problems {
			t.Problems = append(t.Problems, mistake{p.Line, p.Key, p.Message})
		}
		return t, nil
	} else if err != nil {
		return nil, err
	}
	endpoint := section.Endpoint(want.Kind)
	if reply := strings.TrimLeft(want.Reply, " \t\r\n"); strings.HasPrefix(reply, "{") || strings.HasPrefix(reply, "[") {
		endpoint.Reply = mapping.ReplyConfig{} // a reply in XML that was fetched is shown as JSON
		if !strings.Contains(want.Replies, "<?xml") {
			endpoint.Details.Fetch.Reply, endpoint.Fields.Responses.Fetch.Reply = mapping.ReplyConfig{}, mapping.ReplyConfig{}
		}
	}
	saved, err := mappingtest.Saved(want.Replies)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ops.ErrTry, err)
	}
	// A call without a saved reply is no failure.
	section.Retry.Attempts, section.MaxRequestsPerSecond, section.Breaker.MinRequests = 1, 0, 10*secondCalls
	client, err := upstream.New(section, upstream.Options{Transport: saved})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ops.ErrTry, err)
	}
	defer client.Close()
	p, err := client.Probe(ctx, upstream.Request{Kind: want.Kind, Account: want.Account}, upstream.ProbeOptions{Sample: []byte(want.Reply), Records: shownRecords, Further: secondCalls})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ops.ErrTry, err)
	}
	t := &trial{
		Problems: []mistake{}, Items: p.Items, Records: p.Records, Owner: p.Owner, Removed: p.Removed, Uncovered: p.Uncovered,
		Unsaved:    p.Unsaved,
		Violations: p.Violations[:min(len(p.Violations), shownViolations)], Unused: p.Unused[:min(len(p.Unused), shownPaths)],
	}
	t.Refused, t.LeftOut = p.Refusal(*endpoint)
	list := p.Served[:min(len(p.Served), shownRecords)]
	if endpoint.Fields.Responses.Fetch.Path != "" { // the others have been asked for no responses
		list = list[:min(len(list), secondCalls)]
	}
	t.List, err = v1.Render(want.Kind, list)
	return t, err
}

// sample asks the legacy system as the running configuration says: once for the list,
// and for what belongs to its first records.
func (a *App) sample(ctx context.Context, want ops.SampleRequest) (ops.Sample, error) {
	p, err := a.current.Load().client.Probe(ctx, upstream.Request{Kind: want.Kind, Account: want.Account}, upstream.ProbeOptions{Records: 1, Further: secondCalls})
	switch {
	case err != nil:
		return ops.Sample{}, fmt.Errorf("%w: %w", ops.ErrTry, err)
	case p.Reply == "":
		return ops.Sample{}, fmt.Errorf("there is no reply to show: %s", p.Problem)
	}
	a.opts.Logger.Info("a reply was fetched for the playground", "kind", want.Kind, "account", want.Account, "bytes", len(p.Reply), "second_calls", len(p.Further))
	slices.SortFunc(p.Further, func(a, b upstream.SavedReply) int { return strings.Compare(a.Path+a.Sent, b.Path+b.Sent) })
	sample := ops.Sample{Reply: p.Reply, Replies: mappingtest.SavedText(p.Further)}
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(p.Reply), "", "  ") == nil {
		sample.Reply = indented.String()
	}
	return sample, nil
}
