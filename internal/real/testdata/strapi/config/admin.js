module.exports = () => ({
  serveAdminPanel: false, auth: {secret: 'a secret for tokens of admins'}, apiToken: {salt: 'salt of tokens'}, transfer: {token: {salt: 'salt of transfers'}},
  secrets: {encryptionKey: 'a key of thirty-two bytes or more'}, flags: {nps: false, promoteEE: false},
});
