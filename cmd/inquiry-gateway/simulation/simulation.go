// Package simulation runs a fleet in one process: three gateways, Redis, the legacy
// system, a store of keys and their callers, in virtual time and over a network in
// memory. One seed decides on everything that happens to them. It is all test
// code; `make simulate` runs it, and deploy/docs/simulation.md describes it.
package simulation
