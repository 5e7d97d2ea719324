// Package deploy holds what is delivered beside the binary. Go code needs one
// file of it: the runbook, which the console shows.
package deploy

import _ "embed"

// Runbook is runbook.md: a chapter "## Name" for each alert.
//
//go:embed runbook.md
var Runbook string
