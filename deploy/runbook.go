// Package deploy holds what is delivered beside the binary. Go code needs two
// files of it: the runbook, which the console shows, and the configuration's schema.
package deploy

import _ "embed"

// Runbook is runbook.md: a chapter "## Name" for each alert.
//
//go:embed runbook.md
var Runbook string

// ConfigSchema is config.schema.json: the JSON Schema (2020-12) of the gateway's
// configuration file, made from the structs that the file is read into.
//
//go:embed config.schema.json
var ConfigSchema []byte
