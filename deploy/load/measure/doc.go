// Package measure reads what a load run leaves behind: the CPU time and memory
// of process trees from /proc, the summaries of wrk and h2load, series of
// /metrics, and the allocation counters of a Go process.
package measure
