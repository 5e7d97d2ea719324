module.exports = () => ({connection: {client: 'sqlite', connection: {filename: 'data.db'}, useNullAsDefault: true}});
