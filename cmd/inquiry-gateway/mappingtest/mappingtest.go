// Package mappingtest runs the tests that somebody wrote for a mapping: saved
// replies, and the records or the error that they must become.
package mappingtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/probe"
)

// Test is one list that is asked for, what the legacy system answers, and what the
// gateway must make of it.
type Test struct {
	Name        string  `yaml:"name"`
	Kind        string  `yaml:"kind" enum:"buyer,seller"`
	Account     string  `yaml:"account"`
	Status      string  `yaml:"status"`       // the filter; empty: none
	InquiryType string  `yaml:"inquiry_type"` // the filter; empty: none
	Replies     []Reply `yaml:"replies"`
	Expect      Expect  `yaml:"expect"`
}

// Reply is a saved reply of the legacy system.
type Reply struct {
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
	Records     int      `json:"records"`     // that came out
	Differences []string `json:"differences"` // one line each; none: passed
}

// Run runs the tests in file, one after the other, with the mapping of cfg. The error is
// about the file; that a test fails is in its Result. Files of replies are named from the
// folder of file.
func Run(ctx context.Context, cfg upstream.Config, file string) ([]Result, error) {
	var tests []Test
	if err := config.Read(file, &tests); err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(tests))
	for i, test := range tests {
		if test.Name == "" {
			test.Name = fmt.Sprintf("test %d", i+1)
		}
		result, err := test.run(ctx, cfg, filepath.Dir(file))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, test.Name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// run fetches the list from a server of the saved replies, by the same way as the
// gateway does. An error is about the test itself; what it finds is in the Result.
func (t Test) run(ctx context.Context, cfg upstream.Config, folder string) (Result, error) {
	if t.Expect.Records == nil && t.Expect.Error == "" && t.Expect.Asked == nil {
		return Result{}, fmt.Errorf("expects nothing; write expect with records, error or asked")
	}
	legacy, err := server(t.Replies, folder)
	if err != nil {
		return Result{}, err
	}
	client, err := legacy.Client(cfg, "")
	if err != nil {
		return Result{}, err
	}
	defer client.Close()
	list, err := client.Fetch(ctx, upstream.Request{Kind: t.Kind, Account: t.Account, Status: t.Status, InquiryType: t.InquiryType})
	r := Result{Name: t.Name, Records: len(list.Inquiries)}
	r.Differences = append(t.judge(list, err), t.Expect.judgeAsked(legacy.Asked())...)
	return r, nil
}

// server reads all bodies at once; those in files are named from folder.
func server(list []Reply, folder string) (*probe.Transport, error) {
	replies := make([]probe.Reply, 0, len(list))
	for _, r := range list {
		body, err := r.body(folder)
		if err != nil {
			return nil, err
		}
		replies = append(replies, probe.Reply{To: r.To, Has: r.Has, Status: r.Status, Headers: r.Headers, Body: body})
	}
	return probe.Replay(replies)
}

// body is what the legacy system would send: a text as it stands, all else as JSON.
func (r Reply) body(folder string) ([]byte, error) {
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

// judge compares a list, or the error in its place. A test that expects requests only
// takes either.
func (t Test) judge(list upstream.List, err error) []string {
	switch {
	case err != nil && t.Expect.Error != "":
		if strings.Contains(err.Error(), t.Expect.Error) {
			return nil
		}
		return []string{fmt.Sprintf("error: want a text with %q, got %q", t.Expect.Error, err)}
	case err != nil && t.Expect.Records != nil:
		return []string{fmt.Sprintf("records: got none, but the error %q", err)}
	case err != nil:
		return nil
	case t.Expect.Error != "":
		return []string{fmt.Sprintf("error: want a text with %q, got %d records", t.Expect.Error, len(list.Inquiries))}
	case t.Expect.Records == nil:
		return nil
	}
	var got struct{ Data []any }
	body, err := v1.Render(t.Kind, list.Inquiries)
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	if err != nil {
		return []string{err.Error()}
	}
	want := make([]any, len(*t.Expect.Records))
	for i, record := range *t.Expect.Records {
		want[i] = record
	}
	return differences("records", want, got.Data)
}

// judgeAsked looks for each part in all requests, whatever their order.
func (e Expect) judgeAsked(asked []string) (found []string) {
	if e.Asked == nil {
		return nil
	}
	if len(*e.Asked) == 0 && len(asked) > 0 {
		found = append(found, fmt.Sprintf("asked: want no request, got %q", asked))
	}
	for _, part := range *e.Asked {
		if !strings.Contains(strings.Join(asked, "\n"), part) {
			found = append(found, fmt.Sprintf("asked: want %q, got %q", part, asked))
		}
	}
	return found
}

// Write prints the results for a person, and gives the error of the command: how
// many tests failed.
func Write(out io.Writer, results []Result) error {
	failed := 0
	for _, r := range results {
		if len(r.Differences) == 0 {
			fmt.Fprintf(out, "ok    %s (%d records)\n", r.Name, r.Records)
			continue
		}
		failed++
		fmt.Fprintf(out, "FAIL  %s\n", r.Name)
		for _, line := range r.Differences {
			fmt.Fprintf(out, "        %s\n", line)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests failed", failed, len(results))
	}
	_, err := fmt.Fprintf(out, "%d tests passed\n", len(results))
	return err
}

// maxShown bounds the length of one value in a difference.
const maxShown = 200

// differences compares what the test wants with what came out, one line for each
// value. Of an object only the wanted keys are compared, of a list all elements. path
// names the value in the lines.
func differences(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return ofObject(path, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return ofList(path, want, got)
		}
	default:
		// A test may write 12 for the text 12, for each public value is a text or null.
		if want == nil && got == nil || want != nil && fmt.Sprint(want) == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, shown(want), shown(got))}
}

// ofObject compares the wanted keys in their order, so that the lines are the same each
// time.
func ofObject(path string, want, got map[string]any) (found []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		if !ok {
			found = append(found, fmt.Sprintf("%s.%s: is no field of the public record; it has %q", path, key, slices.Sorted(maps.Keys(got))))
			continue
		}
		found = append(found, differences(path+"."+key, want[key], value)...)
	}
	return found
}

// ofList compares element by element; what one list has more is a difference, too.
func ofList(path string, want, got []any) (found []string) {
	for i := range max(len(want), len(got)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(want):
			found = append(found, fmt.Sprintf("%s: want no more, got %s", at, shown(got[i])))
		case i >= len(got):
			found = append(found, fmt.Sprintf("%s: want %s, got no more", at, shown(want[i])))
		default:
			found = append(found, differences(at, want[i], got[i])...)
		}
	}
	return found
}

// shown is a value as JSON, shortened.
func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > maxShown {
		return string(text[:maxShown]) + "..."
	}
	return string(text)
}
