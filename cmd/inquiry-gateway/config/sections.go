package config

// checkSections lets the packages check their own sections, and looks for
// contradictions between them and ours.
func (doc *document) checkSections(c Config) {
	if !doc.has("upstream") {
		doc.wrong("upstream", "missing; add the section with base_url, buyer and seller")
	}
}
