package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"inquiry-gateway/upstream/decode"
)

// maxSampleBytes bounds a sample in XML after it has become JSON.
const maxSampleBytes = 64 << 20

// decodeAll reads the samples, all in JSON or all in XML.
func decodeAll(samples [][]byte) (trees []any, xml bool, err error) {
	format := &decode.Format{}
	for _, sample := range samples {
		text := bytes.TrimLeft(bytes.TrimPrefix(sample, []byte("\xef\xbb\xbf")), " \t\r\n")
		format.XML = format.XML || bytes.HasPrefix(text, []byte("<"))
	}
	if trees, err = decodeEach(samples, format); err != nil || !format.XML {
		return trees, false, err
	}
	// A list of one element looks like none. What is a list in any sample is one in all.
	for _, tree := range trees {
		markLists(nil, tree, &format.Lists)
	}
	trees, err = decodeEach(samples, format)
	return trees, true, err
}

// decodeEach reads each sample in the format. An error names the sample, counted from
// 1.
func decodeEach(samples [][]byte, format *decode.Format) (trees []any, err error) {
	for i, sample := range samples {
		text, err := format.Decode(string(sample), "", maxSampleBytes)
		if err != nil {
			return nil, fmt.Errorf("sample %d cannot be read: %w", i+1, err)
		}
		tree, err := parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("sample %d %w", i+1, err)
		}
		trees = append(trees, tree)
	}
	return trees, nil
}

// parse reads JSON with its numbers as they are written.
func parse(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	return v, nil
}

// markLists notes the names of all elements that are lists in a tree, for the next
// reading.
func markLists(names []string, v any, lists *decode.Lists) {
	switch v := v.(type) {
	case []any:
		lists.Add(names)
		for _, element := range v {
			markLists(names, element, lists)
		}
	case map[string]any:
		for name, member := range v {
			markLists(append(slices.Clone(names), name), member, lists)
		}
	}
}
