package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// sharing is what a node gives and wants.
type sharing struct {
	give  float64 // tokens
	want  int
	most  float64 // tokens in the pool
	leave bool
}

// shared is the answer.
type shared struct {
	part   float64 // of the ceiling that the node may have from now on
	nodes  int
	lost   bool    // Redis did not know the part that was told
	tokens float64 // out of the pool
	pool   float64 // what is left there
}

// errLate is the answer to a call that came after a later one.
var errLate = errors.New("a later call was answered already")

// shareScript writes down the part that a node holds, and answers which one it may
// have: 1/n. One that has too much is told first and lowered when it says that it has
// less; so the others' parts grow only by what nobody holds. The value's first line
// has the part that is held by nobody knows whom (after Redis has lost its memory),
// since when, whether some node had a part then, and the pool; each other line has a
// process, its node, its part, the number of its last call and when that was.
var shareScript = redis.NewScript(`
local process, node, sent, acked = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local used, held, give, want, most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local leave, absent, boot, silent = ARGV[10] == '1', tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local unknown, born, survivors, pool, all, me = 1, now, 0, 0, {}, nil
for line in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do
  local f = {}
  for word in string.gmatch(line, '%S+') do f[#f + 1] = word end
  if #f == 4 then
    unknown, born, survivors, pool = tonumber(f[1]), tonumber(f[2]), tonumber(f[3]), tonumber(f[4])
  else
    all[#all + 1] = {process = f[1], node = f[2], part = tonumber(f[3]), sent = tonumber(f[4]), heard = tonumber(f[5])}
    if f[1] == process then me = all[#all] end
  end
end
if me and sent <= me.sent then return false end
if me and me.sent < acked then -- a fail-over has set Redis back
  unknown, born, survivors, pool, all, me = 1, now, 0, 0, {}, nil
end
local lost = 0
if not me then
  if used > 0 then survivors = 1 end
  unknown, held, lost = math.max(0, unknown - used), used, 1
  me = {process = process, node = node}
  all[#all + 1] = me
end
me.part, me.sent, me.heard = held, sent, now
if unknown < 0.000001 or now - born > (survivors == 1 and absent or boot) then unknown = 0 end
local sum, nodes, names, kept = unknown, 0, {}, {}
if unknown > 0 and survivors == 1 then nodes = 1 end
for _, n in ipairs(all) do
  local quiet = now - n.heard
  if (n == me and not leave) or (n ~= me and quiet < absent and not (n.node == node and quiet > silent)) then
    kept[#kept + 1] = n
    sum = sum + n.part
    if not names[n.node] then nodes = nodes + 1 end
    names[n.node] = true
  end
end
local target = 1 / math.max(1, nodes)
local may = math.min(held, target)
if held < target and sum < 1 then
  me.part = held + math.min(target - held, 1 - sum)
  may = me.part
end
pool = math.min(most, pool + give)
local got = math.max(0, math.min(want, pool))
pool = pool - got
local lines = {string.format('%.9f %.0f %d %.9f', unknown, born, survivors, pool)}
for _, n in ipairs(kept) do
  lines[#lines + 1] = string.format('%s %s %.9f %.0f %.0f', n.process, n.node, n.part, n.sent, n.heard)
end
redis.call('SET', KEYS[1], table.concat(lines, '\n'), 'PX', 86400000)
return {string.format('%.9f', may), nodes, lost, string.format('%.9f', got), string.format('%.9f', pool)}`)

// share tells what part this node holds, gives and wants tokens, and returns what it may
// have. It returns errLate where another call overtook this one.
func (s *store) share(ctx context.Context, m member, g sharing) (shared, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	leave := 0
	if g.leave {
		leave = 1
	}
	float := func(f float64) string { return strconv.FormatFloat(f, 'f', 9, 64) }
	answer, err := shareScript.Run(ctx, s.rdb, []string{s.ceilingKey()}, m.process, m.node, m.sent, m.acked, float(m.used), float(m.held),
		float(g.give), g.want, float(g.most), leave, absentFor.Microseconds(), bootFor.Microseconds(), silentFor.Microseconds()).Slice()
	if errors.Is(err, redis.Nil) {
		return shared{}, errLate
	}
	if err != nil {
		return shared{}, err
	}
	var got shared
	var lost int
	if _, err := fmt.Sscan(fmt.Sprintln(answer...), &got.part, &got.nodes, &lost, &got.tokens, &got.pool); err != nil {
		return shared{}, fmt.Errorf("the answer of Redis about the ceiling was not understood: %w", err)
	}
	got.lost = lost == 1
	return got, nil
}

// member is a node of the fleet as it knows itself.
type member struct {
	node, process string
	sent, acked   uint64    // numbers of the calls of Redis: the last, and the last that was answered
	used          float64   // the part of the ceiling that is in use
	held          float64   // the part that is this node's: used, or more
	since         time.Time // when held grew
	nodes         int
}

// take takes in an answer to what was told. A larger part is used only when Redis
// has still known of it a while later: a fail-over may have taken it back.
func (m *member) take(told member, s shared, now time.Time) {
	m.acked, m.nodes = told.sent, s.nodes
	if s.lost {
		told.held, m.held = told.used, told.used
	}
	if now.Sub(m.since) >= beatEvery {
		m.used = told.held
	}
	if s.part > m.held {
		m.since = now
	}
	m.held = s.part
	m.used = min(m.used, m.held)
}
