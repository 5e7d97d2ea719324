package contract

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

//go:embed document.yaml
var documentSchema []byte

// New reads the document. One that document.yaml refuses is an error, and so is an example that
// its schema refuses.
func New(text []byte) (*Checker, error) {
	c := &Checker{operations: map[string]map[string]operation{}, unseen: map[string]bool{}}
	root, err := parse(text)
	if err == nil {
		err = c.read(root)
	}
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return c, nil
}

func (c *Checker) read(root any) error {
	own, err := parse(documentSchema)
	if err != nil {
		return err
	}
	d := document{compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := errors.Join(d.compiler.AddResource("document.yaml", own), d.compiler.AddResource("openapi.yaml", root)); err != nil {
		return err
	}
	schema, err := d.compiler.Compile("document.yaml")
	if err != nil {
		return err
	}
	if err := schema.Validate(root); err != nil {
		return err
	}
	d.root = root.(map[string]any)
	for path, methods := range d.children(d.at("paths")) {
		c.operations[path] = map[string]operation{}
		for method, op := range d.children(methods) {
			o := operation{map[string]*jsonschema.Schema{}, map[string]response{}}
			parameters, _ := op.fields["parameters"].([]any)
			for _, p := range parameters {
				if p := d.follow(p); p.fields["in"] == "query" {
					o.parameters[p.fields["name"].(string)] = d.compile(p)
				}
			}
			for status, r := range d.children(d.child(op, "responses")) {
				o.responses[status] = d.response(r)
			}
			c.operations[path][strings.ToUpper(method)] = o
		}
	}
	c.unrouted = d.response(d.at("components/responses/Unrouted"))
	for name, example := range d.children(d.at("components/examples")) {
		if envelope, ok := example.fields["value"].(map[string]any); ok {
			if problems, _ := envelope["errors"].([]any); len(problems) > 0 {
				c.unseen[name] = true
			}
		}
	}
	return d.err
}

// document reads objects of openapi.yaml. Its methods keep the first error, and go on.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	err      error
}

// node is an object of the document, and where it stands, as the end of a URL.
type node struct {
	url    string
	fields map[string]any
}

// at returns what stands at names, as components/headers/Age.
func (d *document) at(names string) node {
	n := node{"openapi.yaml#", d.root}
	for name := range strings.SplitSeq(names, "/") {
		n = d.child(n, name)
	}
	return n
}

// child returns an object in another, or what it refers to instead.
func (d *document) child(parent node, name string) node {
	n := d.follow(parent.fields[name])
	if n.url == "" {
		n.url = parent.url + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return n
}

// follow returns the object that another refers to; without a reference itself, and no URL.
func (d *document) follow(object any) node {
	fields, _ := object.(map[string]any)
	ref, refers := fields["$ref"].(string)
	if !refers {
		return node{fields: fields}
	}
	n := d.at(strings.TrimPrefix(ref, "#/"))
	if n.fields == nil {
		d.fail(fmt.Errorf("%s is not there", ref))
	}
	return n
}

func (d *document) children(parent node) map[string]node {
	found := map[string]node{}
	for name := range parent.fields {
		found[name] = d.child(parent, name)
	}
	return found
}

// compile returns the schema of a parameter, a header or a body.
func (d *document) compile(of node) *jsonschema.Schema {
	schema, err := d.compiler.Compile(of.url + "/schema")
	d.fail(err)
	return schema
}

func (d *document) response(n node) response {
	r := response{headers: map[string]header{}, examples: map[string]map[string]string{}}
	for name, of := range d.children(d.child(n, "headers")) {
		h := header{of.fields["required"] == true, d.child(of, "schema").fields["type"] == "integer", d.compile(of)}
		d.fit(of.url, h.schema, of.fields["example"])
		r.headers[http.CanonicalHeaderKey(name)] = h
	}
	content := d.child(d.child(n, "content"), "application/json")
	if content.fields == nil {
		return r
	}
	r.body = d.compile(content)
	for code, example := range d.children(d.child(content, "examples")) {
		d.fit(example.url, r.body, example.fields["value"])
		r.examples[code] = map[string]string{}
		for name, pattern := range d.child(example, "x-headers").fields {
			r.examples[code][name] = pattern.(string)
		}
	}
	return r
}

// fit fails where an example is not as its schema has it.
func (d *document) fit(url string, schema *jsonschema.Schema, example any) {
	if schema != nil {
		if err := schema.Validate(example); err != nil {
			d.fail(fmt.Errorf("the example of %s: %w", url, err))
		}
	}
}

func (d *document) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func parse(text []byte) (any, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(plain))
}
