// oidc-provider with tokens of machines: opaque ones, and JWTs for the resource urn:jwt. Beside it are the files
// secret (the gateway's, read at each start) and, while the server is to answer with a page, html.
import fs from 'node:fs';
import http from 'node:http';
import { Provider } from 'oidc-provider';

const [host, port] = process.argv[2].split(':');
const client = (client_id, client_secret) => ({
  client_id, client_secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
});
const issued = (format) => ({
  scope: 'inquiries:read', audience: 'inquiries', accessTokenFormat: format, accessTokenTTL: 600,
  ...(format === 'jwt' && { jwt: { sign: { alg: 'RS256' } } }),
});
const provider = new Provider(`http://${host}:${port}`, {
  clients: [client('issuer', 'a word for the issuer'), client('gateway', fs.readFileSync('secret', 'utf8').trim())],
  scopes: ['inquiries:read'],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({ ...issued(resource === 'urn:jwt' ? 'jwt' : 'opaque'), ...(resource === 'urn:short' && { accessTokenTTL: 3 }) }),
    },
  },
  extraTokenClaims: () => ({ account: 'acme', kind: 'buyer', api_access: 'paid' }),
});
const handle = provider.callback();
http.createServer((request, response) => {
  if (fs.existsSync('html')) {
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    response.end('<!DOCTYPE html><title>Maintenance</title>');
  } else {
    handle(request, response);
  }
}).listen(port, host);
