package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// node is a JSON value as it is shown: a text, or named parts in their order.
type node struct {
	Name  string
	Text  string
	Parts []node // of an object or an array
	Group bool
}

const maxDepth = 32

// nodeOf shows anything the way encoding/json writes it.
func nodeOf(v any) (*node, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be shown: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	n, err := readNode(d, maxDepth)
	return &n, err
}

func readNode(d *json.Decoder, depth int) (node, error) {
	token, err := d.Token()
	if err != nil {
		return node{}, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return node{Text: textOf(token)}, nil
	}
	if depth == 0 {
		return node{}, errors.New("the answer is nested too deeply to be shown")
	}
	n := node{Group: true}
	for i := 1; d.More(); i++ {
		name := fmt.Sprint(i)
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return node{}, err
			}
			name, _ = key.(string) // an object's key is nothing else
		}
		part, err := readNode(d, depth-1)
		if err != nil {
			return node{}, err
		}
		part.Name = name
		n.Parts = append(n.Parts, part)
	}
	_, err = d.Token() // the closing bracket
	return n, err
}

func textOf(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return unknown
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case string:
		if v == "" {
			return "(empty)"
		}
	}
	return fmt.Sprint(token)
}
