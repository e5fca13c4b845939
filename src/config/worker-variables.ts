// The variables of the worker: its queue, its schedules, the console, webhooks and alerts.

import { z } from 'zod'
import {
  duration,
  durationOrOff,
  nameList,
  namesNobody,
  networkList,
  optionalText,
  orNull,
  password,
  quietHours,
  redisUrl,
  scheduled,
  secretText,
  text,
  url,
  webAddress,
  wholeNumber,
  yamlFile,
  yesOrNo,
} from './parsers.ts'
import type { Variable } from './variable.ts'

export const workerVariables = {
  REDIS_URL: {
    describe: 'address of the Redis that holds the queue',
    fallback: 'the queue is in Postgres too',
    form: '`redis://host:6379`; `redis+sentinel://one:26379,two:26379/NAME` for the primary that sentinels call NAME; `redis+cluster://one:6379,two:6379` for a Redis Cluster; `rediss…://` with TLS',
    secret: true,
    schema: orNull(redisUrl),
  },
  REDIS_PASSWORD: {
    needs: 'REDIS_URL',
    describe: 'password for `REDIS_URL`, when that has none; any characters, as they are',
    fallback: 'that in `REDIS_URL`',
    ...password,
  },
  REDIS_SENTINEL_PASSWORD: {
    needs: 'REDIS_URL',
    describe:
      'password that the sentinels of `REDIS_URL` ask for; `?sentinelUsername=…` behind that address names a user of theirs',
    fallback: 'they ask for none, or `?sentinelPassword=…` behind `REDIS_URL` says it',
    ...password,
  },
  SHARE_TOKENS: {
    needs: 'REDIS_URL',
    describe:
      'whether workers share the token of a sign-in, encrypted in Redis: for an identity provider that limits sign-ins, or ends a token when it gives out another one',
    ...yesOrNo,
  },
  SCHEDULE_RECONCILE: {
    describe:
      'when the whole upstream is listed and compared with the copy, to find missing and deleted records',
    ...scheduled('0 3 * * *'),
  },
  SCHEDULE_DELETIONS: {
    describe:
      'how often Tidemark searches for records that vanished from the upstream; mostly one small request per stream, and at most three, if none did',
    ...scheduled('60s'),
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
    ...networkList,
  },
  HTTP_PORT: {
    describe: 'port that the worker listens on; `0` picks a free one',
    ...wholeNumber(8080, 0, 65_535),
  },
  ADMIN_TOKEN: {
    describe:
      'token with which somebody may do everything (role `admin`): it signs in to the console, and scripts send it',
    fallback: 'only tokens of single people and programs, and other ways to sign in',
    ...secretText(16),
  },
  VIEWER_TOKEN: {
    describe: 'token for viewers, who can look but not act; once it is set, all pages require a sign-in',
    fallback: 'on an address of this machine alone, pages need no sign-in',
    ...secretText(16),
  },
  WEBHOOK_SECRET: {
    describe: 'last part of the path that receives webhooks',
    fallback:
      'webhooks are not received; that of a source that has a name follows from the one of the environment',
    form: '16 or more out of A–Z, a–z, 0–9, `-` and `_`',
    secret: true,
    schema: optionalText.refine(
      (secret) => secret === null || /^[A-Za-z0-9_-]{16,}$/.test(secret),
      'must have at least 16 characters out of A–Z, a–z, 0–9, - and _',
    ),
  },
  WEBHOOK_SIGNING_SECRET: {
    needs: 'WEBHOOK_SECRET',
    describe:
      'secret with which the upstream signs its deliveries, if you subscribed by hand and gave it one',
    fallback: 'derived from `WEBHOOK_SECRET`; the worker gives it to the upstream when it subscribes',
    ...secretText(8),
  },
  WEBHOOK_REQUIRE_SIGNATURE: {
    needs: 'WEBHOOK_SECRET',
    describe:
      'whether deliveries of webhooks without a signature are refused; otherwise the secret in their address is enough',
    ...yesOrNo,
  },
  FORGET_DELETED: {
    as: 'forgetDeletedMs',
    describe:
      'after how long rows that are marked as deleted are erased, with their past and all that is kept under their keys; a record that the upstream still shows stays',
    fallback: '`off`: they are kept',
    form: '`off`, or a duration of a day or more such as `2y`',
    schema: durationOrOff('off', 86_400_000),
  },
  STALE_AFTER: {
    as: 'staleAfterMs',
    describe: 'how far a stream may be behind its own schedule before that is a problem',
    ...duration('15m', '1s'),
  },
  DELETIONS_FROZEN_AFTER: {
    as: 'deletionsFrozenAfterMs',
    describe:
      'how long rows that an operator kept may differ from the list of the upstream before an alert reminds of it',
    ...duration('1d', '1s'),
  },
  ALERTS: {
    describe:
      'file that says who is told of which problems, by chat or by mail, and how old each stream may become; it is read again when it changes',
    fallback: 'one receiver, `ALERT_WEBHOOK_URL`, is told everything',
    ...yamlFile,
  },
  ALERT_WEBHOOK_URL: {
    describe: 'incoming webhook of a Slack, Teams or similar chat that gets alerts',
    fallback: 'no alerts are sent',
    form: 'URL',
    secret: true,
    schema: orNull(
      url(/^https?:$/, 'https://hooks.slack.com/services/…').refine(namesNobody, {
        error: 'must be a URL without user and password: no request can be sent to one with them',
      }),
    ),
  },
  ALERT_FORMAT: {
    needs: 'ALERT_WEBHOOK_URL',
    describe: 'form of the messages: `json` is plain JSON for programs',
    fallback: 'by the address: `teams` for hosts of Microsoft, else `slack`',
    form: '`slack`, `teams` or `json`',
    schema: orNull(z.enum(['slack', 'teams', 'json'], { error: 'must be slack, teams or json' })),
  },
  ALERT_QUIET_HOURS: {
    needs: 'ALERT_WEBHOOK_URL',
    describe: 'when no alerts are sent; problems that began then and still last are sent at the end',
    fallback: 'alerts are sent at any hour',
    form: 'two times and a time zone, such as `22:00-06:30 Europe/Oslo`',
    schema: quietHours,
  },
  ALERT_SECRETS_KEY: {
    describe:
      'key with which the addresses and passwords of receivers that are set up in the console are encrypted before Postgres keeps them; the same for all workers. With another one they have to be entered again',
    fallback: 'receivers cannot be set up in the console',
    ...secretText(16),
  },
  CONSOLE_URL: {
    describe: 'address of the console, for links in alerts',
    fallback: 'alerts have no links to it',
    ...webAddress,
  },
  RUNBOOKS_URL: {
    describe: 'address where the pages of `docs/operations` can be read, for links in alerts',
    fallback: 'alerts name the page by its path',
    ...webAddress,
  },
  PUBLIC_URL: {
    describe:
      'address where the upstream reaches this worker; with it the worker subscribes itself to webhooks',
    fallback: 'it subscribes to nothing',
    ...webAddress,
  },
} as const satisfies Record<string, Variable>
