// The table of variables: what each means, what holds without it, and how its text becomes a value.

import { z } from 'zod'
import {
  baseUrl,
  durationMs,
  durationOrOff,
  flag,
  httpUrl,
  integer,
  optionalText,
  relatedList,
  required,
  roleName,
  schedule,
  streamList,
  text,
  timeZone,
  url,
} from './parsers.ts'

export type Variable = {
  readonly describe: string
  /** As written in the README: the value, `required`, or what happens without one. */
  readonly fallback: string
  readonly secret?: true
  readonly schema: z.ZodType
}

export const mirrorVariables = {
  DATABASE_URL: {
    describe: 'URL of the Postgres that Tidemark writes to',
    fallback: 'an embedded Postgres in `.tidemark/`',
    secret: true,
    schema: url(/^postgres(ql)?:$/, 'postgres://host:5432/database, with user:password@ before the host')
      .optional()
      .transform((value) => value ?? null),
  },
  SOURCE_TIMEZONE: {
    describe: 'time zone of upstream date-times that have no offset',
    fallback: 'UTC',
    schema: timeZone,
  },
  BI_ROLE: {
    describe: 'Postgres role that may read the tables and nothing else',
    fallback: 'none',
    schema: roleName,
  },
  LOG_LEVEL: {
    describe: 'what is logged: trace, debug, info, warn, error, fatal or silent',
    fallback: 'info',
    schema: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        error: 'must be one of trace, debug, info, warn, error, fatal, silent',
      })
      .default('info'),
  },
} as const satisfies Record<string, Variable>

export const upstreamVariables = {
  ASSIGNMENT_BASE_URL: {
    describe: 'base URL of the assignment service',
    fallback: 'required',
    schema: baseUrl,
  },
  AUTH_URL: { describe: 'base URL of the identity provider', fallback: 'required', schema: baseUrl },
  CLIENT_GUID: {
    describe: 'GUID of the customer, sent as header `clientId` to the assignment service',
    fallback: 'required',
    schema: z.guid({ error: 'must be a GUID such as 6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f' }),
  },
  SUBJECT_ID: {
    describe: 'user id of the integration user, for the sign-in',
    fallback: 'required',
    schema: required('the user id you were given'),
  },
  API_KEY: {
    describe: 'key of the integration user',
    fallback: 'required',
    secret: true,
    schema: required('the key you were given'),
  },
  TRACKING_BASE_URL: {
    describe: 'base URL of the tracking service',
    fallback: 'none: trackers are not read',
    schema: baseUrl.optional().transform((value) => value ?? null),
  },
  TRACKING_AUTH_URL: {
    describe: 'identity provider of the tracking service',
    fallback: '`AUTH_URL`',
    schema: baseUrl.optional(),
  },
  TRACKING_SUBJECT_ID: {
    describe: 'user id for the sign-in to the tracking service',
    fallback: '`SUBJECT_ID`',
    schema: text.optional(),
  },
  TRACKING_API_KEY: {
    describe: 'key for the sign-in to the tracking service',
    fallback: '`API_KEY`',
    secret: true,
    schema: text.optional(),
  },
  STREAMS: {
    describe: 'streams to read, separated by commas',
    fallback: 'all that are configured',
    schema: streamList,
  },
  LOOKBACK: {
    describe: 'how far back look-back runs read at least',
    fallback: '10m',
    schema: durationMs('10m', 1000),
  },
  PAGE_SIZE: {
    describe: 'records to ask for in one request',
    fallback: '1000',
    schema: integer(1000, 1, 100_000),
  },
  REQUESTS_PER_SECOND: {
    describe: 'most requests per second that each worker sends to each service',
    fallback: 'none',
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
    fallback: '60s',
    schema: durationMs('60s', 100),
  },
  TRACKER_HISTORY: {
    describe: 'how long old rows of trackers are kept as history; `off` keeps none',
    fallback: '90d',
    schema: durationOrOff('90d', 24 * 3_600_000),
  },
  RELATED: {
    describe: 'related records of assignments to read: `true` for all groups, or a list of groups',
    fallback: 'none',
    schema: relatedList,
  },
  ATTACHMENT_DATA: {
    describe: '`true` also reads the bytes of attached files',
    fallback: '`false`',
    schema: flag,
  },
  RELATED_REFRESH: {
    describe: 'how old related records may get before they are read again; `off`: only after a change',
    fallback: '7d',
    schema: durationOrOff('7d', 3_600_000),
  },
} as const satisfies Record<string, Variable>

export const workerVariables = {
  REDIS_URL: {
    describe: 'URL of the Redis that holds the queue',
    fallback: 'none: the queue is in Postgres',
    secret: true,
    schema: url(/^rediss?:$/, 'redis://host:6379')
      .optional()
      .transform((value) => value ?? null),
  },
  SCHEDULE_RECONCILE: {
    describe: 'when reconciles run: they list everything to find missed and deleted rows',
    fallback: '0 3 * * *',
    schema: schedule('0 3 * * *'),
  },
  HTTP_HOST: {
    describe: 'address the worker listens on',
    fallback: '127.0.0.1',
    schema: text.default('127.0.0.1'),
  },
  HTTP_PORT: {
    describe: 'port the worker listens on; `0` picks a free one',
    fallback: '8080',
    schema: integer(8080, 0, 65_535),
  },
  ADMIN_TOKEN: {
    describe: 'token to sign in to the console, and bearer token of actions over HTTP; 16 characters or more',
    fallback: 'none: nobody can sign in or act',
    secret: true,
    schema: optionalText.refine(
      (token) => token === null || token.length >= 16,
      'must have at least 16 characters',
    ),
  },
  WEBHOOK_SECRET: {
    describe: 'last part of the path that receives webhooks; 16 letters, digits, - or _, or more',
    fallback: 'none: webhooks are not received',
    secret: true,
    schema: optionalText.refine(
      (secret) => secret === null || /^[A-Za-z0-9_-]{16,}$/.test(secret),
      'must have at least 16 characters out of A–Z, a–z, 0–9, - and _',
    ),
  },
  STALE_AFTER: {
    describe: 'how late a stream may be read before it is a problem',
    fallback: '15m',
    schema: durationMs('15m', 1000),
  },
  ALERT_WEBHOOK_URL: {
    describe: 'webhook of a Slack or Teams channel that gets alerts',
    fallback: 'none: no alerts are sent',
    secret: true,
    schema: url(/^https?:$/, 'https://hooks.slack.com/services/…')
      .optional()
      .transform((value) => value ?? null),
  },
  PUBLIC_URL: {
    describe:
      'URL at which the upstream reaches this worker; when set, the worker subscribes itself to webhooks',
    fallback: 'none: the worker does not subscribe',
    schema: httpUrl.optional().transform((value) => value ?? null),
  },
} as const satisfies Record<string, Variable>

/** Every variable, for the README's table and `.env.example`. */
export const variables: Readonly<Record<string, Variable>> = {
  ...mirrorVariables,
  ...upstreamVariables,
  ...workerVariables,
}
