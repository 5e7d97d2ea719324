// Package auth turns the Authorization header of a request into a Principal
// and decides what that principal may read.
//
// A key is an opaque bearer token (RFC 6750). Only its digest is ever stored,
// compared or used as a map key; the key itself appears in no log, metric,
// error or file. An Authenticator reads the header, checks the checksum of
// keys in the gateway's own format, hashes the key and asks a Store for the
// Grant behind the digest. Stores differ in where grants come from; what a
// grant means (revoked, expired, kind, scope, paid access) is decided here and
// nowhere else.
package auth
