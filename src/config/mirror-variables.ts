// The variables of the copy: Postgres, its roles, and what every command needs.

import { z } from 'zod'
import {
  baseUrl,
  biSchemas,
  fieldTimezonesOf,
  optionalText,
  orNull,
  password,
  postgresUrl,
  role,
  timeZone,
  yamlFile,
  yesOrNo,
} from './parsers.ts'
import { ofStreams, type Variable } from './variable.ts'

export const mirrorVariables = {
  DATABASE_URL: {
    describe:
      'address of the Postgres that holds the copy; of several hosts, the first that takes writes is used',
    fallback: 'an embedded Postgres in `.tidemark/`',
    form: '`postgres://user:password@host:5432/database`, with several hosts `…@one:5432,two:5432/…`, by a socket `postgres://user@/database?host=/var/run/postgresql`',
    secret: true,
    schema: orNull(postgresUrl),
  },
  DATABASE_PASSWORD: {
    needs: 'DATABASE_URL',
    describe: 'password for `DATABASE_URL`, when that has none; any characters, as they are',
    fallback: 'that in `DATABASE_URL`',
    ...password,
  },
  TIDEMARK_URL: {
    describe:
      'address of a worker: the terminal then looks and acts over its API, and needs no password of Postgres; verbs that the API does not have say so',
    fallback: 'none: the terminal asks Postgres',
    form: '`https://host` or `http://127.0.0.1:8080`',
    schema: orNull(baseUrl),
  },
  TIDEMARK_TOKEN: {
    needs: 'TIDEMARK_URL',
    describe:
      'token that the terminal sends to that worker: one that `tidemark token create` made, or its `VIEWER_TOKEN` or `ADMIN_TOKEN`',
    fallback: 'none',
    ...password,
  },
  SOURCES_FILE: {
    describe:
      'file that describes further sources, each with tables and views of its own; the other settings describe the first one. Changes are taken up within seconds',
    fallback: 'there is one source',
    ...yamlFile,
  },
  SOURCE_TIMEZONE: {
    describe: 'time zone of date-times that the upstream sends without an offset',
    fallback: '`UTC`',
    form: '`UTC`, or the name of a place such as `Europe/Oslo`; no offset and no abbreviation',
    schema: timeZone,
  },
  DICTIONARY: {
    as: 'dictionaryFile',
    describe:
      'file that says what the data means: names, units, codes, keys, time zones, histories. Workers take up changes of it within seconds. What a variable says, too, must be the same',
    fallback: 'none',
    ...yamlFile,
  },
  FIELD_TIMEZONES: {
    describe:
      'time zones of single fields whose date-times have no offset; fields whose names end in `UTC` or `Utc` are in UTC',
    fallback: '`SOURCE_TIMEZONE` for all fields',
    form: 'stream.field=zone, comma-separated, such as `assignment.plannedStart=Europe/Oslo`',
    ...ofStreams(fieldTimezonesOf),
  },
  BI_ROLE: {
    describe:
      'role in Postgres that may read the copy and nothing else; it must exist. The right to make temporary tables in this database is taken from all other roles, too, once',
    fallback: 'none',
    ...role,
  },
  FLEET_BI_ROLE: {
    describe:
      'role in Postgres that may read the views over several sources, in schema `fleet` and those of groups, and nothing else; it must exist',
    fallback: 'none',
    ...role,
  },
  BI_SCHEMAS: {
    describe:
      'schemas that `BI_ROLE` may read, besides what reports need of `tidemark`; from a schema that is no longer named, Tidemark takes back what it gave',
    fallback: '`bi,mirror`',
    form: '`bi`, `mirror` or both, comma-separated',
    schema: biSchemas,
  },
  INDEXES: {
    describe:
      'whether the worker makes indexes for reports after the first load: on columns that refer to other tables. One that somebody drops is not made again. Those that Tidemark itself needs, and that of `_xid`, are made either way',
    fallback: '`auto`: it does',
    form: '`auto` or `off`',
    schema: z.enum(['auto', 'off'], { error: 'must be auto or off' }).default('auto'),
  },
  WORKER_ROLE: {
    describe:
      'role of the workers, when `tidemark migrate` runs as another one, which stays the owner of the tables of Tidemark; it must exist, unless OWNER_ROLE is set',
    fallback: 'none: the role in `DATABASE_URL` is that of the workers too',
    ...role,
  },
  OWNER_ROLE: {
    describe:
      'role that owns the tables of Tidemark; `tidemark migrate` makes it and `WORKER_ROLE` when it runs as a superuser, and works as it',
    fallback: 'none: no role is made',
    ...role,
  },
  WORKER_PASSWORD: {
    needs: 'OWNER_ROLE',
    describe: 'password that `tidemark migrate` gives `WORKER_ROLE`, with `OWNER_ROLE`',
    fallback: 'its password stays as it is',
    ...password,
  },
  BI_PASSWORD: {
    needs: 'OWNER_ROLE',
    describe: 'password of `BI_ROLE` when `tidemark migrate` makes that role, with `OWNER_ROLE`',
    fallback: '`BI_ROLE` is not made',
    ...password,
  },
  EXTRA_CA_FILE: {
    describe:
      'file with certificates of further authorities to trust, for all TLS connections: to Postgres, Redis, the upstream and the receiver of alerts. When it changes, new connections go by it',
    fallback: 'the usual ones only',
    form: 'path of a file in PEM',
    schema: optionalText,
  },
  ALLOW_PLAINTEXT: {
    describe:
      'whether keys, tokens and rows may go to other than private addresses without TLS: to `http:` and `redis:` URLs, and to a Postgres with `sslmode=disable`',
    ...yesOrNo,
    fallback: '`false`: such a URL is refused',
  },
  LOG_LEVEL: {
    describe: 'how much is logged',
    fallback: '`info`',
    form: '`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`',
    schema: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        error: 'must be one of trace, debug, info, warn, error, fatal, silent',
      })
      .default('info'),
  },
} as const satisfies Record<string, Variable>
