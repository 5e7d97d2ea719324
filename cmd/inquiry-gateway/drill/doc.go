// Package drill does to a gateway what happens to one at night: its Redis, its
// legacy system and its key store become slow, go down or answer garbage, one
// at a time and two at once, and callers ask. What they get is held against the
// one declared table of this package.
//
// The drill has a legacy system, a key store and a way to Redis of its own, all
// on this machine; it asks nothing of the real ones. Of a configuration it takes
// the settings that decide such moments, and neither addresses nor secrets.
package drill
