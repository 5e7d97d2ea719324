// Package rate limits how many requests an account may make over a fleet of
// gateways.
//
// The account's tokens are kept in Redis (GCRA, a leaky bucket that stores one
// number). A node takes them in small batches, leases, and spends them without
// asking again, so most requests cost a mutex and no round trip. Taken tokens
// are charged at once, so the fleet never gets more of them than the limit
// gives. They may be spent up to LeaseTTL later: within any window the fleet
// lets at most
//
//	burst + per_second x window + nodes x Limit.Batch
//
// requests of one account pass, and what a node took and did not spend within
// LeaseTTL is lost to the account.
//
// While Redis is away every node limits on its own, to the whole limit: at
// most nodes times as much passes.
package rate
