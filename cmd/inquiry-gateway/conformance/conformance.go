// Package conformance holds conversations of bytes with the gateway and compares what it
// answers with what the RFCs say, and with what net/http alone would answer. It is all test
// code; `make conformance` runs all of it, and deploy/docs/conformance.md has the result.
package conformance
