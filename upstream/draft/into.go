package draft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Into adds the proposal to the text of a configuration: its kind goes to the end of the
// section upstream, and all else stays as it is, comments included. A configuration
// without that section gets one at its end. One that has the kind already is refused.
func (p *Proposal) Into(config string) (string, error) {
	upstream, err := section(config, "upstream")
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
		key := upstream.Key.GetToken().Position
		w.indent = strings.Repeat(" ", key.Column+1)
		switch children := upstream.Value.(type) {
		case *ast.NullNode:
			w.address()
		case *ast.MappingNode:
			if children.IsFlowStyle {
				return "", fmt.Errorf("line %d: upstream is written in braces; write its keys on lines of their own, then a kind can be added", key.Line)
			}
			for _, child := range children.Values {
				if child.Key.String() == p.Kind {
					return "", fmt.Errorf("line %d: upstream.%s is there already; remove it, or give --kind for the other one", child.Key.GetToken().Position.Line, p.Kind)
				}
				w.indent = strings.Repeat(" ", child.Key.GetToken().Position.Column-1)
			}
		default:
			return "", fmt.Errorf("line %d: upstream is no section", key.Line)
		}
		at = endOf(lines, key.Line)
		p.kind(w)
	}
	added := w.String()
	if strings.Contains(config, "\r\n") {
		added = strings.ReplaceAll(added, "\n", "\r\n")
	}
	edited := strings.Join(lines[:at], "") + added + strings.Join(lines[at:], "")
	if upstream, err = section(edited, "upstream"); err != nil || !strings.Contains(upstream.String(), p.Kind+":") {
		return "", errors.New("the kind cannot be added to a file that is written like this; append what draft prints without --into by hand")
	}
	return edited, nil
}

// section finds a section of a configuration; nil where there is none.
func section(config, name string) (*ast.MappingValueNode, error) {
	file, err := parser.ParseBytes([]byte(config), 0)
	if err != nil {
		return nil, err
	}
	for _, doc := range file.Docs {
		if body, ok := doc.Body.(*ast.MappingNode); ok {
			for _, value := range body.Values {
				if value.Key.String() == name {
					return value, nil
				}
			}
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
