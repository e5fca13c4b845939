// The variables of the upstream, and of what is copied of it.

import { z } from 'zod'
import {
  baseUrl,
  contractPlace,
  duration,
  durationOrOff,
  historiesOf,
  listed,
  orNull,
  proxyUrl,
  relatedList,
  required,
  secretText,
  streamList,
  text,
  wholeNumber,
  yesOrNo,
} from './parsers.ts'
import { ofStreams, type Variable } from './variable.ts'

const isRate = (text: string): boolean => Number.isFinite(Number(text)) && Number(text) > 0

/** Proxies on the way out, as other programs know them. */
export const proxyVariables = {
  HTTPS_PROXY: {
    describe:
      'proxy through which `https:` addresses are asked: those of the upstream, its sign-in and its description, and the receiver of alerts. Like the three below it may be written in lower case, which wins',
    fallback: '`ALL_PROXY`',
    form: '`http://proxy.example:3128`, with `user:password@` before the host if it asks for them',
    secret: true,
    schema: proxyUrl,
  },
  HTTP_PROXY: {
    describe: 'the same for `http:` addresses',
    fallback: '`ALL_PROXY`',
    form: 'as for `HTTPS_PROXY`',
    secret: true,
    schema: proxyUrl,
  },
  ALL_PROXY: {
    describe: 'proxy for addresses that have none of the two above',
    fallback: 'addresses are asked directly',
    form: 'as for `HTTPS_PROXY`',
    secret: true,
    schema: proxyUrl,
  },
  NO_PROXY: {
    describe: 'hosts that are asked directly, with all names below them; this machine always is',
    fallback: 'none but this machine',
    form: 'names, addresses and networks, comma-separated, each with a port or without, such as `example.com,10.0.0.0/8,host:8443`, or `*`',
    schema: text.default('').transform((value) => value.split(/[\s,]+/).filter(Boolean)),
  },
} as const

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
    schema: orNull(baseUrl),
  },
  TRACKING_AUTH_URL: {
    needs: 'TRACKING_BASE_URL',
    describe: 'base URL of the identity provider of the tracking service',
    fallback: '`AUTH_URL`',
    form: 'URL',
    schema: baseUrl.optional(),
  },
  TRACKING_SUBJECT_ID: {
    needs: 'TRACKING_BASE_URL',
    describe: 'user that signs in to the tracking service',
    fallback: '`SUBJECT_ID`',
    form: 'text',
    schema: text.optional(),
  },
  TRACKING_API_KEY: {
    needs: 'TRACKING_BASE_URL',
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
    as: 'lookbackMs',
    describe:
      'how far back Tidemark at least reads again to find rows that became visible late; the look-back grows by itself if rows come later than that',
    ...duration('10m', '1s'),
  },
  PAGE_SIZE: {
    describe: 'how many records one request asks for',
    ...wholeNumber(1000, 1, 100_000),
  },
  LOAD_CONNECTIONS: {
    describe:
      'how many pages are requested at the same time during large reads such as the first load; `1` reads one after the other',
    ...wholeNumber(12, 1, 12),
  },
  LOOKUPS_PER_MINUTE: {
    describe:
      'how many records that the upstream’s list lacks a reconcile looks up in a minute, one request each; more are proven to be gone by reading their part of the list twice',
    ...wholeNumber(60, 1, 1_000_000),
  },
  REQUESTS_PER_SECOND: {
    describe:
      'most requests per second that all workers together make to one host with one sign-in; sign-ins are not counted',
    fallback: 'no limit',
    form: 'number above 0, such as `5` or `0.5`',
    schema: orNull(text.refine(isRate, 'must be a number above 0, such as 5 or 0.5').transform(Number)),
  },
  HOST_REQUESTS_PER_SECOND: {
    describe:
      'most requests per second that all workers together make to a host for all sources that name it here, whoever signs in; a host without a port means all of its ports',
    fallback: 'no limit',
    form: '`host=number`, comma-separated, such as `api.example=50,other.example:8443=5`',
    schema: text.default('').transform((value, context): ReadonlyMap<string, number> => {
      const rates = listed(value.toLowerCase()).map((one) => /^([^=/@\s]+)=(\S+)$/.exec(one) ?? [])
      if (rates.some(([, , rate = '']) => !isRate(rate)))
        context.addIssue('must be hosts with a number above 0 each, such as api.example=50')
      return new Map(rates.map(([, host = '', rate]) => [host, Number(rate)]))
    }),
  },
  REQUEST_TIMEOUT: {
    as: 'requestTimeoutMs',
    describe: 'how long one request may take',
    ...duration('60s', '100ms'),
  },
  MASK_KEY: {
    describe:
      'secret with which `mask: hash` of `DICTIONARY` turns values into hashes; with another one all of them are others',
    fallback: 'no field can be masked by a hash',
    ...secretText(16),
  },
  HISTORY: {
    as: 'histories',
    describe:
      'streams whose history is kept: every change that Tidemark sees, for the time after `=`, or for ever; `all` stands for those that are not named, related records included, except for vehicles and the bytes of files',
    fallback: 'none but vehicles: see `TRACKER_HISTORY`',
    form: 'names, comma-separated, such as `assignment,assignment_note=365d` or `all=365d`',
    ...ofStreams(historiesOf),
  },
  TRACKER_HISTORY: {
    as: 'trackerHistoryMs',
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
    ...yesOrNo,
  },
  RELATED_REFRESH: {
    as: 'relatedRefreshMs',
    describe:
      'after how long related records are read again even if their assignment did not change; `off`: never',
    fallback: '`1d`',
    form: 'duration of an hour or more, or `off`',
    schema: durationOrOff('1d', 3_600_000),
  },
} as const satisfies Record<string, Variable>
