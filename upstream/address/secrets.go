package address

import (
	"net/url"
	"slices"
	"strings"
)

// Hidden stands where a secret would be shown.
const Hidden = "(hidden)"

// Hider makes the function that hides a secret in a text, however it is escaped there. One of less than three bytes is in every text.
func Hider(secret string) func(string) string {
	if len(secret) < 3 {
		return strings.Clone
	}
	forms := []string{secret, url.QueryEscape(secret), escapeQuery(secret), url.PathEscape(secret), strings.Trim(quote(secret), `"`), escapeXML(secret)}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, Hidden)
	}
	return strings.NewReplacer(pairs...).Replace
}
