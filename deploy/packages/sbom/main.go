// Command sbom writes what a Go binary was built from, as CycloneDX 1.6 JSON. It
// reads the binary itself, so that nothing is listed that is not in it, and writes
// no time and no serial number: same binary, same bytes.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// component is one of CycloneDX.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

// run takes a binary and the version of the program.
func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("give a binary and the version of the program")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	list := []component{{Type: "library", Ref: "std", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace == nil || m.Replace.Sum != "" { // without a sum it is a folder, part of this module
			list = append(list, componentOf(m))
		}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	return encoder.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": component{Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: args[1]}},
		"components": list,
	})
}

// componentOf is the module that was used: a replacement where there is one.
func componentOf(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
}
