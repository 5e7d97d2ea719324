// Package theme holds what the gateway's pages have in common: colours, light
// and dark, the rules of plain elements, and the icon.
package theme

import (
	"embed"
	"io/fs"
)

//go:embed assets
var files embed.FS

// Files gives theme.css and icon.svg, in the folder assets.
func Files() fs.FS { return files }
