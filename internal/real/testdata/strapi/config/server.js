const [host, port] = process.env.ADDR.split(':');
module.exports = () => ({host, port: Number(port), app: {keys: ['one key', 'another key']}, logger: {updates: {enabled: false}}});
