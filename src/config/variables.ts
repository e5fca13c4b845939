// The table of variables: what each means, what holds without it, and how its text becomes a value.

import { z } from 'zod'
import {
  baseUrl,
  contractPlace,
  durationMs,
  durationOrOff,
  fieldTimezones,
  flag,
  hasOnlyOptions,
  histories,
  httpUrl,
  integer,
  nameList,
  namesNobody,
  networkList,
  optionalText,
  postgresUrl,
  quietHours,
  redisUrl,
  relatedList,
  required,
  roleName,
  schedule,
  streamList,
  text,
  timeZone,
  url,
} from './parsers.ts'
import { proxyVariables } from './proxy-variables.ts'

export type Variable = {
  /** What it does, as it goes on after its name: for the manual, and for messages. */
  readonly describe: string
  /** The value when it is not set, `required`, or what happens then. */
  readonly fallback: string
  /** What can be written there. */
  readonly form: string
  readonly secret?: true
  readonly schema: z.ZodType
}

export const mirrorVariables = {
  DATABASE_URL: {
    describe:
      'address of the Postgres that holds the copy; of several hosts, the first that takes writes is used',
    fallback: 'an embedded Postgres in `.tidemark/`',
    form: '`postgres://user:password@host:5432/database`, with several hosts `…@one:5432,two:5432/…`, by a socket `postgres://user@/database?host=/var/run/postgresql`',
    secret: true,
    schema: postgresUrl.optional().transform((value) => value ?? null),
  },
  SOURCE_TIMEZONE: {
    describe: 'time zone of date-times that the upstream sends without an offset',
    fallback: '`UTC`',
    form: '`UTC`, or the name of a place such as `Europe/Oslo`; no offset and no abbreviation',
    schema: timeZone,
  },
  FIELD_TIMEZONES: {
    describe:
      'time zones of single fields whose date-times have no offset; fields whose names end in `UTC` or `Utc` are in UTC',
    fallback: '`SOURCE_TIMEZONE` for all fields',
    form: 'stream.field=zone, comma-separated, such as `assignment.plannedStart=Europe/Oslo`',
    schema: fieldTimezones,
  },
  BI_ROLE: {
    describe:
      'role in Postgres that may read the copy and nothing else; it must exist. The right to make temporary tables in this database is taken from all other roles, too, once',
    fallback: 'none',
    form: 'name of a role',
    schema: roleName,
  },
  WORKER_ROLE: {
    describe:
      'role of the workers, when `tidemark migrate` runs as another one, which stays the owner of the tables of Tidemark; it must exist, unless OWNER_ROLE is set',
    fallback: 'none: the role in `DATABASE_URL` is that of the workers too',
    form: 'name of a role',
    schema: roleName,
  },
  OWNER_ROLE: {
    describe:
      'role that owns the tables of Tidemark; `tidemark migrate` makes it and `WORKER_ROLE` when it runs as a superuser, and works as it',
    fallback: 'none: no role is made',
    form: 'name of a role',
    schema: roleName,
  },
  WORKER_PASSWORD: {
    describe: 'password that `tidemark migrate` gives `WORKER_ROLE`, with `OWNER_ROLE`',
    fallback: 'its password stays as it is',
    form: 'text',
    secret: true,
    schema: optionalText,
  },
  BI_PASSWORD: {
    describe: 'password of `BI_ROLE` when `tidemark migrate` makes that role, with `OWNER_ROLE`',
    fallback: '`BI_ROLE` is not made',
    form: 'text',
    secret: true,
    schema: optionalText,
  },
  EXTRA_CA_FILE: {
    describe:
      'file with certificates of further authorities to trust, for all TLS connections: to Postgres, Redis, the upstream and the receiver of alerts',
    fallback: 'the usual ones only',
    form: 'path of a file in PEM',
    schema: optionalText,
  },
  ALLOW_PLAINTEXT: {
    describe:
      'whether keys, tokens and rows may go to other than private addresses without TLS: to `http:` and `redis:` URLs, and to a Postgres with `sslmode=disable`',
    fallback: '`false`: such a URL is refused',
    form: '`true` or `false`',
    schema: flag,
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

export const upstreamVariables = {
  ASSIGNMENT_BASE_URL: {
    describe: 'base URL of the assignment service: the part before `/api`',
    fallback: 'required',
    form: 'URL',
    schema: baseUrl,
  },
  AUTH_URL: {
    describe: 'base URL of the identity provider: the part before `/Token`',
    fallback: 'required',
    form: 'URL',
    schema: baseUrl,
  },
  CLIENT_GUID: {
    describe:
      'GUID of the customer whose data is wanted, sent to the assignment service as header `clientId`',
    fallback: 'required',
    form: 'GUID',
    schema: z.guid({ error: 'must be a GUID such as 6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f' }),
  },
  SUBJECT_ID: {
    describe: 'integration user that Tidemark signs in as',
    fallback: 'required',
    form: 'text',
    schema: required('the user id you were given'),
  },
  API_KEY: {
    describe: 'key of the integration user',
    fallback: 'required',
    form: 'text',
    secret: true,
    schema: required('the key you were given'),
  },
  TRACKING_BASE_URL: {
    describe: 'base URL of the tracking service, which lists vehicles',
    fallback: 'vehicles are not copied',
    form: 'URL',
    schema: baseUrl.optional().transform((value) => value ?? null),
  },
  TRACKING_AUTH_URL: {
    describe: 'base URL of the identity provider of the tracking service',
    fallback: '`AUTH_URL`',
    form: 'URL',
    schema: baseUrl.optional(),
  },
  TRACKING_SUBJECT_ID: {
    describe: 'user that signs in to the tracking service',
    fallback: '`SUBJECT_ID`',
    form: 'text',
    schema: text.optional(),
  },
  TRACKING_API_KEY: {
    describe: 'key of that user',
    fallback: '`API_KEY`',
    form: 'text',
    secret: true,
    schema: text.optional(),
  },
  ...proxyVariables,
  STREAMS: {
    describe:
      'which streams are copied; `all` stands for the built-in ones, and `name=/path` adds another list of the upstream',
    fallback: 'all that are configured',
    form: 'names, comma-separated, such as `all,customer=/api/Customer`',
    schema: streamList,
  },
  CONTRACT: {
    describe:
      'where the OpenAPI description of the assignment service is; it gives columns, types and comments before the first row',
    fallback: '`/openapi/v1.json`, `/swagger/v1/swagger.json` and `/openapi.json` are tried',
    form: 'URL, file, or `off`',
    schema: contractPlace,
  },
  LOOKBACK: {
    describe:
      'how far back Tidemark at least reads again to find rows that became visible late; the look-back grows by itself if rows come later than that',
    fallback: '`10m`',
    form: 'duration, 1s or more',
    schema: durationMs('10m', 1000),
  },
  PAGE_SIZE: {
    describe: 'how many records one request asks for',
    fallback: '`1000`',
    form: '1 to 100000',
    schema: integer(1000, 1, 100_000),
  },
  LOAD_CONNECTIONS: {
    describe:
      'how many pages are requested at the same time during large reads such as the first load; `1` reads one after the other',
    fallback: '`12`',
    form: '1 to 12',
    schema: integer(12, 1, 12),
  },
  LOOKUPS_PER_MINUTE: {
    describe:
      'how many records that the upstream’s list lacks Tidemark looks up in a minute, one request each; more are proven to be gone by reading their part of the list twice',
    fallback: '`60`',
    form: '1 to 1000000',
    schema: integer(60, 1, 1_000_000),
  },
  REQUESTS_PER_SECOND: {
    describe:
      'most requests per second that one worker makes to each service; with several workers, divide it among them',
    fallback: 'no limit',
    form: 'number above 0, such as `5` or `0.5`',
    schema: text.optional().transform((value, context) => {
      if (value === undefined) return null
      const number = Number(value)
      if (Number.isFinite(number) && number > 0) return number
      context.addIssue('must be a number above 0, such as 5 or 0.5')
      return z.NEVER
    }),
  },
  REQUEST_TIMEOUT: {
    describe: 'how long one request may take',
    fallback: '`60s`',
    form: 'duration, 100ms or more',
    schema: durationMs('60s', 100),
  },
  HISTORY: {
    describe:
      'streams whose history is kept: every change that Tidemark sees, for the time after `=`, or for ever',
    fallback: 'none but vehicles: see `TRACKER_HISTORY`',
    form: 'names, comma-separated, such as `assignment,assignment_note=365d`',
    schema: histories,
  },
  TRACKER_HISTORY: {
    describe: 'how long the history of vehicles is kept; `off` keeps none',
    fallback: '`90d`',
    form: 'duration of a day or more, or `off`',
    schema: durationOrOff('90d', 24 * 3_600_000),
  },
  RELATED: {
    describe: 'which related records of assignments are copied',
    fallback: 'none',
    form: '`true` for all groups, or their names, comma-separated',
    schema: relatedList,
  },
  ATTACHMENT_DATA: {
    describe: 'whether the bytes of attached files are copied as well; needs `RELATED`',
    fallback: '`false`',
    form: '`true` or `false`',
    schema: flag,
  },
  RELATED_REFRESH: {
    describe:
      'after how long related records are read again even if their assignment did not change; `off`: never',
    fallback: '`1d`',
    form: 'duration of an hour or more, or `off`',
    schema: durationOrOff('1d', 3_600_000),
  },
} as const satisfies Record<string, Variable>

export const workerVariables = {
  REDIS_URL: {
    describe: 'address of the Redis that holds the queue',
    fallback: 'the queue is in Postgres too',
    form: '`redis://host:6379`, or `rediss://…` with TLS',
    secret: true,
    schema: redisUrl
      .refine(hasOnlyOptions('family', 'db'), {
        error:
          'has options that Tidemark does not know. TLS is what rediss:// means, and its certificate is always verified (EXTRA_CA_FILE adds an authority)',
      })
      .optional()
      .transform((value) => value ?? null),
  },
  SCHEDULE_RECONCILE: {
    describe:
      'when the whole upstream is listed and compared with the copy, to find missing and deleted records',
    fallback: '`0 3 * * *`',
    form: 'duration or cron expression',
    schema: schedule('0 3 * * *'),
  },
  SCHEDULE_DELETIONS: {
    describe:
      'how often Tidemark searches for records that vanished from the upstream; one small request per stream if none did',
    fallback: '`60s`',
    form: 'duration or cron expression',
    schema: schedule('60s'),
  },
  HTTP_HOST: {
    describe:
      'address that the worker listens on; if other machines can reach it, pages require a sign-in, and a proxy with TLS belongs in front',
    fallback: '`127.0.0.1`',
    form: 'address or name',
    schema: text.default('127.0.0.1'),
  },
  HTTP_NAMES: {
    describe:
      'further names under which people open the console over plain HTTP; IP addresses, `localhost`, the name of this machine and that in `PUBLIC_URL` always work',
    fallback: 'no other names',
    form: 'names without port, comma-separated',
    schema: nameList,
  },
  TRUSTED_PROXIES: {
    describe:
      'proxies in front of the worker whose `X-Forwarded-For` is believed, so that wrong tokens are counted, and actions recorded, by the address of the client',
    fallback: 'the header is ignored, and everybody behind a proxy has the address of the proxy',
    form: 'addresses and networks, comma-separated, such as `127.0.0.1,10.1.0.0/16`',
    schema: networkList,
  },
  HTTP_PORT: {
    describe: 'port that the worker listens on; `0` picks a free one',
    fallback: '`8080`',
    form: '0 to 65535',
    schema: integer(8080, 0, 65_535),
  },
  ADMIN_TOKEN: {
    describe: 'token for operators: it signs in to the console with the right to act, and scripts send it',
    fallback: 'nobody can act',
    form: '16 characters or more',
    secret: true,
    schema: optionalText.refine(
      (token) => token === null || token.length >= 16,
      'must have at least 16 characters',
    ),
  },
  VIEWER_TOKEN: {
    describe: 'token for viewers, who can look but not act; once it is set, all pages require a sign-in',
    fallback: 'on an address of this machine alone, pages need no sign-in',
    form: '16 characters or more',
    secret: true,
    schema: optionalText.refine(
      (token) => token === null || token.length >= 16,
      'must have at least 16 characters',
    ),
  },
  WEBHOOK_SECRET: {
    describe: 'last part of the path that receives webhooks',
    fallback: 'webhooks are not received',
    form: '16 or more out of A–Z, a–z, 0–9, `-` and `_`',
    secret: true,
    schema: optionalText.refine(
      (secret) => secret === null || /^[A-Za-z0-9_-]{16,}$/.test(secret),
      'must have at least 16 characters out of A–Z, a–z, 0–9, - and _',
    ),
  },
  WEBHOOK_SIGNING_SECRET: {
    describe:
      'secret with which the upstream signs its deliveries, if you subscribed by hand and gave it one',
    fallback: 'derived from `WEBHOOK_SECRET`; the worker gives it to the upstream when it subscribes',
    form: 'text of 8 characters or more',
    secret: true,
    schema: optionalText.refine(
      (secret) => secret === null || secret.length >= 8,
      'must have at least 8 characters',
    ),
  },
  WEBHOOK_REQUIRE_SIGNATURE: {
    describe:
      'whether deliveries of webhooks without a signature are refused; otherwise the secret in their address is enough',
    fallback: '`false`',
    form: '`true` or `false`',
    schema: flag,
  },
  STALE_AFTER: {
    describe: 'how far a stream may be behind its own schedule before that is a problem',
    fallback: '`15m`',
    form: 'duration, 1s or more',
    schema: durationMs('15m', 1000),
  },
  DELETIONS_FROZEN_AFTER: {
    describe:
      'how long rows that an operator kept may differ from the list of the upstream before an alert reminds of it',
    fallback: '`1d`',
    form: 'duration, 1s or more',
    schema: durationMs('1d', 1000),
  },
  ALERT_WEBHOOK_URL: {
    describe: 'incoming webhook of a Slack, Teams or similar chat that gets alerts',
    fallback: 'no alerts are sent',
    form: 'URL',
    secret: true,
    schema: url(/^https?:$/, 'https://hooks.slack.com/services/…')
      .refine(namesNobody, {
        error: 'must be a URL without user and password: no request can be sent to one with them',
      })
      .optional()
      .transform((value) => value ?? null),
  },
  ALERT_FORMAT: {
    describe: 'form of the messages: `json` is plain JSON for programs',
    fallback: 'by the address: `teams` for hosts of Microsoft, else `slack`',
    form: '`slack`, `teams` or `json`',
    schema: z
      .enum(['slack', 'teams', 'json'], { error: 'must be slack, teams or json' })
      .optional()
      .transform((value) => value ?? null),
  },
  ALERT_QUIET_HOURS: {
    describe: 'when no alerts are sent; problems that began then and still last are sent at the end',
    fallback: 'alerts are sent at any hour',
    form: 'two times and a time zone, such as `22:00-06:30 Europe/Oslo`',
    schema: quietHours,
  },
  CONSOLE_URL: {
    describe: 'address of the console, for links in alerts',
    fallback: 'alerts have no links to it',
    form: 'URL',
    schema: httpUrl.optional().transform((value) => value ?? null),
  },
  RUNBOOKS_URL: {
    describe: 'address where the pages of `docs/operations` can be read, for links in alerts',
    fallback: 'alerts name the page by its path',
    form: 'URL',
    schema: httpUrl.optional().transform((value) => value ?? null),
  },
  PUBLIC_URL: {
    describe:
      'address where the upstream reaches this worker; with it the worker subscribes itself to webhooks',
    fallback: 'it subscribes to nothing',
    form: 'URL',
    schema: httpUrl.optional().transform((value) => value ?? null),
  },
} as const satisfies Record<string, Variable>

/** Every variable, for the manual and `.env.example`. */
export const variables: Readonly<Record<string, Variable>> = {
  ...mirrorVariables,
  ...upstreamVariables,
  ...workerVariables,
}
