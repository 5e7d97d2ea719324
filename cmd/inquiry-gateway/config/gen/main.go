// Command gen writes config.schema.json and docs/configuration.md, which are made from the
// structs of the configuration, their tags and their comments.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

func main() {
	files, err := generate("../../..")
	for file, text := range files {
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate makes the files, by their paths. root is that of the repository.
func generate(root string) (map[string][]byte, error) {
	source := sources{root: root, packages: map[string]map[string]string{}}
	schema, err := config.MakeSchema(source.comment)
	reference := config.MakeReference(source.comment)
	if err == nil {
		err = source.err
	}
	return map[string][]byte{
		filepath.Join(root, "cmd/inquiry-gateway/config/config.schema.json"): schema,
		filepath.Join(root, "docs/configuration.md"):                         reference,
	}, err
}

// sources are the comments of structs, by package and Type.Field.
type sources struct {
	root     string
	packages map[string]map[string]string
	err      error // the first
}

// comment gives what is written at a field of a struct.
func (s *sources) comment(owner reflect.Type, field string) string {
	dir := filepath.Join(s.root, strings.TrimPrefix(owner.PkgPath(), "inquiry-gateway/"))
	if s.packages[dir] == nil {
		s.packages[dir] = map[string]string{}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			if err == nil {
				err = readComments(file, s.packages[dir])
			}
		}
		if s.err == nil {
			s.err = err
		}
	}
	return s.packages[dir][owner.Name()+"."+field]
}

// readComments reads the comments of the structs of a file.
func readComments(file string, comments map[string]string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					comments[spec.Name.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
				}
			}
		}
		return false
	})
	return nil
}
