vcl 4.1;
backend origin { .host = "127.0.0.1"; .port = "9500"; }
sub vcl_recv {
  if (!req.http.Authorization) { return (synth(401)); }
  return (hash);
}
# A key's lists are its own.
sub vcl_hash { hash_data(req.http.Authorization); }
# The origin answers 401 to a key that is not good.
sub vcl_backend_response {
  if (beresp.status == 200) { set beresp.ttl = 4h; } else { set beresp.uncacheable = true; set beresp.ttl = 1s; }
  return (deliver);
}
