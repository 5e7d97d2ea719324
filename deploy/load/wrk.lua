-- wrk -s wrk.lua URL -- KEYS PATH [NAME VALUE]...
-- Each request has a key drawn at random from the file KEYS, which has one key a line.
-- All requests are made before the load starts, because wrk shares the machine with
-- the server.
local ready = {}

function init(args)
  local header = {}
  for i = 3, #args, 2 do header[args[i]] = args[i + 1] end
  for key in io.lines(args[1]) do
    header.Authorization = "Bearer " .. key
    ready[#ready + 1] = wrk.format("GET", args[2], header)
  end
  math.randomseed(1)
end

function request() return ready[math.random(#ready)] end

function done(summary)
  local e = summary.errors
  io.write(string.format("SUMMARY %d %d %d\n", summary.requests, summary.bytes, e.connect + e.read + e.write + e.timeout + e.status))
end
