// Package docs holds the one page that the gateway serves itself.
package docs

import _ "embed"

// Runbook is runbook.md: a chapter "## Name" for each alert.
//
//go:embed runbook.md
var Runbook string
