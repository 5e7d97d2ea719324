// Package soak runs the gateway for long, under mixed traffic and faults, and looks for
// what grows. It is all test code; `make soak` runs it, and deploy/docs/proof.md describes it.
package soak
