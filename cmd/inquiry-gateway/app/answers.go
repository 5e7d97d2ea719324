package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway/ops"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

const (
	// triedAnswers bounds the lists that are tried, so that a request does not take more
	// than seconds.
	triedAnswers  = 200
	shownExamples = 3
)

// answers tries other mappings on the replies that are kept.
func (a *App) answers(ctx context.Context, want ops.AnswersRequest) (ops.AnswersDiff, error) {
	gen := a.current.Load()
	if gen.cfg.Upstream.KeepRepliesBytes == 0 {
		return ops.AnswersDiff{}, fmt.Errorf("%w: the gateway keeps no replies; set upstream.keep_replies_bytes and wait until lists were fetched", ops.ErrTry)
	}
	before, err := withEndpoints(gen.cfg.Upstream, ops.AnswersRequest{Buyer: gen.cfg.EndpointText("buyer"), Seller: gen.cfg.EndpointText("seller")})
	if err != nil {
		return ops.AnswersDiff{}, err
	}
	after, err := withEndpoints(gen.cfg.Upstream, want)
	if err != nil {
		return ops.AnswersDiff{}, fmt.Errorf("%w: %w", ops.ErrTry, err)
	}
	return diffAnswers(ctx, before, after, gen.client.Kept(triedAnswers))
}

// withEndpoints is the section with other mappings, without its secrets.
func withEndpoints(section upstream.Config, want ops.AnswersRequest) (_ upstream.Config, err error) {
	section.Auth, section.TLS = upstream.AuthConfig{}, upstream.DefaultConfig().TLS
	if section, err = config.WithEndpoint(section, "buyer", want.Buyer); err == nil {
		section, err = config.WithEndpoint(section, "seller", want.Seller)
	}
	return section, err
}

// diffAnswers replays the kept lists with both sections, the newest first and as many as
// there is time for. Nothing is sent.
func diffAnswers(ctx context.Context, before, after upstream.Config, kept []*upstream.Kept) (ops.AnswersDiff, error) {
	d := ops.AnswersDiff{Fields: []ops.FieldChange{}, Load: []ops.LoadChange{}}
	words := wordsOf(before, after)
	for _, list := range slices.Backward(kept) {
		old, err := list.Replay(ctx, before)
		if err != nil {
			return d, err
		}
		next := old
		if !reflect.DeepEqual(before.Endpoint(list.Want.Kind), after.Endpoint(list.Want.Kind)) {
			if next, err = list.Replay(ctx, after); err != nil {
				return d, fmt.Errorf("%w: %w", ops.ErrTry, err)
			}
		}
		if ctx.Err() != nil {
			break
		}
		d.Answers++
		if old.Err == nil && len(old.List.Inquiries) == 0 {
			d.Empty++
		}
		c := changes{diff: &d, kind: list.Want.Kind, words: words, values: map[string]int{}}
		c.answers(&old, &next)
		c.load(&old, &next)
	}
	for i := range d.Load {
		l := &d.Load[i]
		l.Before, l.After = l.Before/float64(l.Lists), l.After/float64(l.Lists)
		l.Filters.StatusBefore, l.Filters.InquiryTypeBefore = sent(before, l.Kind)
		l.Filters.StatusAfter, l.Filters.InquiryTypeAfter = sent(after, l.Kind)
	}
	slices.SortFunc(d.Fields, func(a, b ops.FieldChange) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Answers, a.Answers), cmp.Compare(a.Field, b.Field))
	})
	slices.SortFunc(d.Load, func(a, b ops.LoadChange) int { return cmp.Compare(a.Kind, b.Kind) })
	return d, nil
}

// sent tells whether the legacy is sent any value of the two filters.
func sent(section upstream.Config, kind string) (status, inquiryType bool) {
	client, err := upstream.New(section, upstream.Options{})
	if err != nil {
		return false, false
	}
	defer client.Close()
	some := func(f mapping.Filter) bool {
		return f.Other == mapping.AskedFor || slices.Contains(slices.Collect(maps.Values(f.Values)), mapping.AskedFor)
	}
	s, t := client.Filters(kind)
	return some(s), some(t)
}

// changes are those of one list, on their way into the sums of all.
type changes struct {
	diff   *ops.AnswersDiff
	kind   string          // of the list
	words  map[string]bool // that may be shown, as wordsOf gives them
	values map[string]int  // that differ, by field
}

// answers compares what a caller would get: two errors by their reason, two lists by
// their records, a list and an error as one change of the field "error".
func (c *changes) answers(old, next *upstream.Replayed) {
	switch was, is := reasonOf(old.Err), reasonOf(next.Err); {
	case was != is:
		c.change("error", cmp.Or(was, "a list"), cmp.Or(is, "a list"))
	case was == "":
		c.records("", rendered(c.kind, old.List), rendered(c.kind, next.List))
	}
	if len(c.values) > 0 {
		c.diff.Changed++
	}
}

// reasonOf is empty for no error.
func reasonOf(err error) string {
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		return cmp.Or(failed.Reason, string(failed.Failure))
	} else if err != nil {
		return "internal"
	}
	return ""
}

// rendered are the records as callers get them, decoded again: what the rendering makes
// the same is no difference.
func rendered(kind string, list upstream.List) []any {
	var envelope struct{ Data []any }
	if body, err := v1.Render(kind, list.Inquiries); err == nil {
		_ = json.Unmarshal(body, &envelope) // which is JSON
	}
	return envelope.Data
}

// records compares records, or the responses of one, by their place.
func (c *changes) records(prefix string, old, next []any) {
	if len(old) != len(next) {
		c.change(cmp.Or(prefix, "records"), fmt.Sprint(len(old)), fmt.Sprint(len(next)))
	}
	for i := range min(len(old), len(next)) {
		was, _ := old[i].(map[string]any)
		is, _ := next[i].(map[string]any)
		for field, before := range was {
			name := field
			if prefix != "" {
				name = prefix + "." + field
			}
			if responses, ok := before.([]any); ok {
				after, _ := is[field].([]any)
				c.records(name, responses, after)
			} else if !reflect.DeepEqual(before, is[field]) {
				c.change(name, c.shape(field, before), c.shape(field, is[field]))
			}
		}
	}
}

// shape hides all but times and the words that a mapping names: with a mistake any text of
// a record may stand where a word should.
func (c *changes) shape(field string, v any) string {
	text, ok := v.(string)
	if !ok || field == "created_at" || c.words[text] {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("a text of %d characters", len([]rune(text)))
}

// wordsOf are the public values that mappings name.
func wordsOf(sections ...upstream.Config) map[string]bool {
	words := map[string]bool{}
	for _, s := range sections {
		for _, e := range [...]mapping.EndpointConfig{s.Buyer, s.Seller} {
			for _, f := range [...]mapping.Field{e.Fields.Status, e.Fields.InquiryType, e.Fields.Responses.Fields.ResponderType} {
				for _, word := range f.Values {
					words[word.Value] = word.Set
				}
			}
		}
	}
	return words
}

// change counts a value that differs, and keeps the first few examples that are not
// alike. before and after must be shapes: they go to whoever asks.
func (c *changes) change(field, before, after string) {
	i := slices.IndexFunc(c.diff.Fields, func(f ops.FieldChange) bool { return f.Kind == c.kind && f.Field == field })
	if i < 0 {
		i = len(c.diff.Fields)
		c.diff.Fields = append(c.diff.Fields, ops.FieldChange{Kind: c.kind, Field: field, Examples: []ops.ExampleChange{}})
	}
	f := &c.diff.Fields[i]
	if c.values[field]++; c.values[field] == 1 {
		f.Answers++
	}
	f.Values++
	if e := (ops.ExampleChange{Before: before, After: after}); len(f.Examples) < shownExamples && !slices.Contains(f.Examples, e) {
		f.Examples = append(f.Examples, e)
	}
}

// load adds the requests of one list to the sums of its kind; diffAnswers makes means of
// them.
func (c *changes) load(old, next *upstream.Replayed) {
	i := slices.IndexFunc(c.diff.Load, func(l ops.LoadChange) bool { return l.Kind == c.kind })
	if i < 0 {
		i = len(c.diff.Load)
		c.diff.Load = append(c.diff.Load, ops.LoadChange{Kind: c.kind})
	}
	l := &c.diff.Load[i]
	l.Lists++
	l.Before, l.After = l.Before+float64(len(old.Asked)), l.After+float64(len(next.Asked))
	if !slices.Equal(old.Asked, next.Asked) {
		l.Differ++
	}
}
