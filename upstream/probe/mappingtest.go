package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"inquiry-gateway/upstream"
)

// Test is one list that is asked for, what the legacy system answers, and what the
// gateway must make of it.
type Test struct {
	Name        string      `yaml:"name"`
	Kind        string      `yaml:"kind" enum:"buyer,seller"`
	Account     string      `yaml:"account"`
	Status      string      `yaml:"status"`       // the filter; empty: none
	InquiryType string      `yaml:"inquiry_type"` // the filter; empty: none
	Replies     []TestReply `yaml:"replies"`
	Expect      Expect      `yaml:"expect"`
}

// TestReply is a saved reply of the legacy system.
type TestReply struct {
	To      string            `yaml:"to"`      // path and parameters of its request, such as /tickets?page=2; empty: any
	Has     string            `yaml:"has"`     // a part of the request: method, path, query and body, unescaped
	File    string            `yaml:"file"`    // the reply's body, from the folder of the tests
	Body    any               `yaml:"body"`    // or here: a text as it stands, all else as JSON
	Status  int               `yaml:"status"`  // 200 if left out
	Headers map[string]string `yaml:"headers"` // besides Content-Type, which follows from the body
}

// Expect is what must come out. What is left out is not compared.
type Expect struct {
	Records *[]map[string]any `yaml:"records"` // the public records, each with the fields that count
	Error   string            `yaml:"error"`   // a part of the error's text
	Asked   *[]string         `yaml:"asked"`   // parts of requests, unescaped; an empty list: none is made
}

// Result is how one test ended.
type Result struct {
	Name        string   `json:"name"`
	Records     int      `json:"records"`               // that came out
	Differences []string `json:"differences,omitempty"` // one line each; none: passed
}

// Render writes inquiries as the public list of a kind.
type Render func(kind string, list []upstream.Inquiry) ([]byte, error)

// RunTests runs tests of a mapping, one after the other. Files of replies are named from
// folder. The error is about a test itself; that one fails is in its Result.
func RunTests(ctx context.Context, cfg upstream.Config, tests []Test, folder string, render Render) ([]Result, error) {
	results := make([]Result, 0, len(tests))
	for i, test := range tests {
		if test.Name == "" {
			test.Name = fmt.Sprintf("test %d", i+1)
		}
		result, err := test.run(ctx, cfg, folder, render)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", test.Name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// run fetches the list by the same way as the gateway does.
func (t Test) run(ctx context.Context, cfg upstream.Config, folder string, render Render) (r Result, err error) {
	if t.Expect.Records == nil && t.Expect.Error == "" && t.Expect.Asked == nil {
		return r, fmt.Errorf("expects nothing; write expect with records, error or asked")
	}
	var replies []Reply
	for _, saved := range t.Replies {
		reply, err := saved.Reply(folder)
		if err != nil {
			return r, err
		}
		replies = append(replies, reply)
	}
	legacy, err := Replay(replies)
	if err != nil {
		return r, err
	}
	client, err := legacy.Client(cfg, "")
	if err != nil {
		return r, err
	}
	defer client.Close()
	list, failed := client.Fetch(ctx, upstream.Request{Kind: t.Kind, Account: t.Account, Status: t.Status, InquiryType: t.InquiryType})
	r = Result{Name: t.Name, Records: len(list.Inquiries)}
	differs := func(format string, args ...any) { r.Differences = append(r.Differences, fmt.Sprintf(format, args...)) }
	switch {
	case failed != nil && t.Expect.Error != "":
		if !strings.Contains(failed.Error(), t.Expect.Error) {
			differs("error: want a text with %q, got %q", t.Expect.Error, failed)
		}
	case failed != nil && t.Expect.Records != nil:
		differs("records: got none, but the error %q", failed)
	case failed != nil: // a test that expects requests only takes either
	case t.Expect.Error != "":
		differs("error: want a text with %q, got %d records", t.Expect.Error, len(list.Inquiries))
	case t.Expect.Records != nil:
		var got struct{ Data []any }
		body, err := render(t.Kind, list.Inquiries)
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil {
			return r, err
		}
		want := make([]any, len(*t.Expect.Records))
		for i, record := range *t.Expect.Records {
			want[i] = record
		}
		r.Differences = differences("records", want, got.Data)
	}
	if t.Expect.Asked == nil {
		return r, nil
	}
	asked := legacy.Requests()
	if len(*t.Expect.Asked) == 0 && len(asked) > 0 {
		differs("asked: want no request, got %q", asked)
	}
	for _, part := range *t.Expect.Asked {
		if !strings.Contains(strings.Join(asked, "\n"), part) {
			differs("asked: want %q, got %q", part, asked)
		}
	}
	return r, nil
}

// Reply is the saved reply with its body; a file is named from folder.
func (r TestReply) Reply(folder string) (Reply, error) {
	body, err := r.body(folder)
	return Reply{To: r.To, Has: r.Has, Status: r.Status, Headers: r.Headers, Body: body}, err
}

// body is what the legacy system would send: a text as it stands, all else as JSON.
func (r TestReply) body(folder string) ([]byte, error) {
	text, plain := r.Body.(string)
	switch {
	case (r.File == "") == (r.Body == nil):
		return nil, fmt.Errorf("a reply wants either file or body")
	case r.File != "" && filepath.IsAbs(r.File):
		return os.ReadFile(r.File)
	case r.File != "":
		return os.ReadFile(filepath.Join(folder, r.File))
	case plain:
		return []byte(text), nil
	}
	return json.Marshal(r.Body)
}

// differences compares what the test wants with what came out, one line for each
// value. Of an object only the wanted keys are compared, of a list all elements. path
// names the value in the lines.
func differences(path string, want, got any) (found []string) {
	wantObject, object := want.(map[string]any)
	gotObject, sameKind := got.(map[string]any)
	if object && sameKind {
		for _, key := range slices.Sorted(maps.Keys(wantObject)) {
			if value, ok := gotObject[key]; ok {
				found = append(found, differences(path+"."+key, wantObject[key], value)...)
			} else {
				found = append(found, fmt.Sprintf("%s.%s: is no field of the public record; it has %q", path, key, slices.Sorted(maps.Keys(gotObject))))
			}
		}
		return found
	}
	wantList, list := want.([]any)
	gotList, sameKind := got.([]any)
	if list && sameKind {
		for i := range max(len(wantList), len(gotList)) {
			at := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= len(wantList):
				found = append(found, fmt.Sprintf("%s: want no more, got %s", at, shown(gotList[i])))
			case i >= len(gotList):
				found = append(found, fmt.Sprintf("%s: want %s, got no more", at, shown(wantList[i])))
			default:
				found = append(found, differences(at, wantList[i], gotList[i])...)
			}
		}
		return found
	}
	// A test may write 12 for the text 12, for each public value is a text or null.
	if want == nil && got == nil || want != nil && !object && !list && fmt.Sprint(want) == got {
		return nil
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, shown(want), shown(got))}
}

// shown is a value as JSON, shortened.
func shown(v any) string {
	const most = 200
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
