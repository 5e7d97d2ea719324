package gateway

import v1 "inquiry-gateway/gateway/v1"

// ProblemOf is what a caller would be answered to an error of the parts: the
// one table of errors, for tools that explain what would happen.
func ProblemOf(err error) v1.Problem { return problemOf(err).Problem }
