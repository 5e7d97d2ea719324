-- wrk -s wrk.lua URL -- KEYS REQUESTS
-- KEYS has one API key a line. REQUESTS has one request a line: the path, then
-- names and values of headers, with tabs between. Every request is drawn at
-- random from all pairs of a key and a request. All are made before the load
-- starts, because wrk shares the machine with the server.

local ready = {}

function init(args)
  local requests = {}
  for line in io.lines(args[2]) do
    local fields = {}
    for field in line:gmatch("[^\t]+") do fields[#fields + 1] = field end
    requests[#requests + 1] = fields
  end
  for key in io.lines(args[1]) do
    for _, fields in ipairs(requests) do
      local header = {Authorization = "Bearer " .. key}
      for i = 2, #fields, 2 do header[fields[i]] = fields[i + 1] end
      ready[#ready + 1] = wrk.format("GET", fields[1], header)
    end
  end
  math.randomseed(1)
end

function request()
  return ready[math.random(#ready)]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'SUMMARY {"Requests":%d,"Duration":%.0f,"Bytes":%d,"Errors":%d,"BadStatus":%d,"P50":%.0f,"P99":%.0f}\n', -- times in nanoseconds
    summary.requests, summary.duration * 1000, summary.bytes, e.connect + e.read + e.write + e.timeout, e.status,
    latency:percentile(50) * 1000, latency:percentile(99) * 1000))
end
