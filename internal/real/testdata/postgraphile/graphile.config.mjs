import {makePgService} from 'postgraphile/adaptors/pg';
import {PostGraphileAmberPreset} from 'postgraphile/presets/amber';
import {PgLazyJWTPreset} from 'postgraphile/presets/lazy-jwt';

const [host, port] = process.env.ADDR.split(':');
export default {
  extends: [PostGraphileAmberPreset, PgLazyJWTPreset],
  pgServices: [makePgService({connectionString: process.env.DATABASE, schemas: ['app']})],
  gather: {pgJwtTypes: 'app.jwt'},
  schema: {pgJwtSecret: 'a secret of at least thirty-two bytes'},
  grafserv: {host, port: Number(port), watch: false},
  grafast: {context: ({node}) => node?.req.headers.authorization ? {} : {pgSettings: {role: 'anonymous'}}}, // else that of the token
};
