package draft

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Into adds the proposal to the text of a configuration: its kind goes to the end of the
// section upstream, and all else stays as it is, comments included. A configuration
// without that section gets one at its end. One that has the kind already is refused.
func (p *Proposal) Into(config string) (string, error) {
	key, upstream, err := section(config, "upstream")
	if err != nil {
		return "", err
	}
	lines := strings.SplitAfter(config, "\n")
	if last := len(lines) - 1; lines[last] != "" {
		lines[last] += "\n"
	} else {
		lines = lines[:last]
	}
	at, w := len(lines), &writer{}
	if upstream == nil {
		w.WriteString(p.YAML())
	} else {
		w.indent = strings.Repeat(" ", key.Column+1)
		switch {
		case upstream.Kind == yaml.ScalarNode && upstream.Tag == "!!null":
			w.address()
		case upstream.Kind != yaml.MappingNode:
			return "", fmt.Errorf("line %d: upstream is no section", key.Line)
		case upstream.Style&yaml.FlowStyle != 0:
			return "", fmt.Errorf("line %d: upstream is written in braces; write its keys on lines of their own, then a kind can be added", key.Line)
		}
		for i := 0; i < len(upstream.Content); i += 2 {
			child := upstream.Content[i]
			if child.Value == p.Kind {
				return "", fmt.Errorf("line %d: upstream.%s is there already; remove it, or give --kind for the other one", child.Line, p.Kind)
			}
			w.indent = strings.Repeat(" ", child.Column-1)
		}
		at = endOf(lines, key.Line)
		p.kind(w)
	}
	added := w.String()
	if strings.Contains(config, "\r\n") {
		added = strings.ReplaceAll(added, "\n", "\r\n")
	}
	edited := strings.Join(lines[:at], "") + added + strings.Join(lines[at:], "")
	if _, upstream, err = section(edited, "upstream"); err == nil && upstream != nil {
		upstream, _ = child(upstream, p.Kind)
	}
	if err != nil || upstream == nil {
		return "", errors.New("the kind cannot be added to a file that is written like this; append what draft prints without --into by hand")
	}
	return edited, nil
}

// section finds the key and the value of a section of a configuration; nil if it is not there.
func section(config, name string) (key, value *yaml.Node, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(config), &doc); err != nil {
		return nil, nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil, nil
	}
	key, value = child(doc.Content[0], name)
	return key, value, nil
}

// child finds a key of a mapping and its value.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// endOf is the number of lines up to the end of the block whose key stands on a line,
// without blank lines and comments that belong to what follows.
func endOf(lines []string, key int) int {
	end := key
	for i, line := range lines[key:] {
		indented := strings.HasPrefix(line, " ")
		if strings.TrimSpace(line) != "" && !indented && !strings.HasPrefix(line, "#") {
			break
		}
		if indented && strings.TrimSpace(line) != "" {
			end = key + i + 1
		}
	}
	return end
}
