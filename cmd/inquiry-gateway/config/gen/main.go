// Command gen writes config.schema.json and docs/configuration.md from the structs of the
// configuration, their tags and their comments.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
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

// generate returns the content of the files by their paths. root is that of the repository.
func generate(root string) (map[string][]byte, error) {
	fieldComments, err := readComments(root)
	if err != nil {
		return nil, err
	}
	schema, err := makeSchema(fieldComments)
	return map[string][]byte{
		filepath.Join(root, "cmd/inquiry-gateway/config/config.schema.json"): schema,
		filepath.Join(root, "docs/configuration.md"):                         makeReference(fieldComments),
	}, err
}

// comments are the doc comments of struct fields in the program's source, by Package.Type.Field.
type comments map[string]string

// readComments reads all source files of the program.
func readComments(root string) (comments, error) {
	fieldComments := comments{}
	return fieldComments, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						fieldComments["inquiry-gateway/"+filepath.ToSlash(folder)+"."+spec.Name.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
					}
				}
			}
			return false
		})
		return err
	})
}

// of returns the comment of a key, without the name of the field with which it begins.
func (c comments) of(owner reflect.Type, f yamlfile.Field) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		owner = owner.Field(i).Type
	}
	name := owner.Field(f.Index[len(f.Index)-1]).Name
	text := strings.TrimPrefix(c[owner.PkgPath()+"."+owner.Name()+"."+name], name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	return strings.Join(strings.Fields(text), " ")
}

// defaultOf returns a default as the file would hold it; nil if there is none.
func defaultOf(v reflect.Value) any {
	switch shown := setting.Format(v).(type) {
	case string, bool, int, int64, float64, uint64:
		if shown != "" {
			return shown
		}
	}
	return nil
}
