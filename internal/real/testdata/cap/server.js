// Listens on loopback alone.
const cds = require('@sap/cds')
cds.on('bootstrap', app => {
  const listen = app.listen
  app.listen = port => listen.call(app, port, '127.0.0.1')
})
module.exports = cds.server
