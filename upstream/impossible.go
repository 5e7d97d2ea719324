package upstream

// Impossible tells whether no record can have the wanted filter values, so that
// Fetch would answer an empty list without asking, for tools that explain it.
// An unknown kind has no such values.
func (c *Client) Impossible(want Request) bool {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return false
	}
	_, noStatus := e.plan.byStatus.ask(want.Status)
	_, noType := e.plan.byType.ask(want.InquiryType)
	return noStatus || noType
}
