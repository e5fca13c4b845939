import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ConfigError, readEnvironment } from '../../src/config/environment.ts'
import { loadConfig, loadLogLevel, loadMirrorConfig } from '../../src/config/load.ts'
import { variables } from '../../src/config/variables.ts'
import { proxyNotice, streamsIn } from '../../src/configured.ts'
import { redact } from '../../src/log.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'

const complete = {
  ASSIGNMENT_BASE_URL: 'https://assignments.example/base/',
  AUTH_URL: 'https://identity.example',
  CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
  SUBJECT_ID: 'integration',
  API_KEY: 'a key of the tests',
}

const problemsOf = (environment: Record<string, string>): string => {
  try {
    loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return ''
}

describe('loadConfig', () => {
  it('fills in the defaults, and the sign-in of the tracking service from the other one', () => {
    expect(loadConfig(complete)).toMatchObject({
      assignmentBaseUrl: 'https://assignments.example/base',
      databaseUrl: null,
      redisUrl: null,
      trackingBaseUrl: null,
      trackingAuthUrl: 'https://identity.example',
      trackingSubjectId: 'integration',
      trackingApiKey: 'a key of the tests',
      lookbackMs: 600_000,
      requestTimeoutMs: 60_000,
      pageSize: 1000,
      requestsPerSecond: null,
      sourceTimezone: 'UTC',
      httpPort: 8080,
      scheduleReconcile: { cron: '0 3 * * *' },
    })
    expect(loadConfig(complete).schedules).toMatchObject({
      assignment: { everyMs: 30_000 },
      tracker_object: { everyMs: 60_000 },
      webhook_definition: { everyMs: 3_600_000 },
    })
  })

  it.each(['REQUEST_TIMEOUT', 'SCHEDULE_ASSIGNMENT', 'STALE_AFTER', 'LOOKBACK'])(
    'takes no longer %s than a timer can wait: one of 1000h would go off at once',
    (name) => {
      expect(problemsOf({ ...complete, [name]: '1000h' })).toContain(`${name} must be a duration`)
      expect(() => loadConfig({ ...complete, [name]: '500h' })).not.toThrow()
    },
  )

  it('is frozen', () => {
    expect(Object.isFrozen(loadConfig(complete))).toBe(true)
  })

  it('tells all problems at once, each with its variable and what to write there', () => {
    const problems = problemsOf({
      ...complete,
      CLIENT_GUID: 'not one',
      PAGE_SIZE: '0',
      LOOKBACK: 'soon',
      STREAMS: 'assignment,assignments',
      SCHEDULE_ASSIGNMENT: 'every minute',
      SOURCE_TIMEZONE: 'Oslo',
      REQUESTS_PER_SECOND: '-1',
      HTTP_PORT: '70000',
      // Whatever the tests of this process print is cut of it.
      WEBHOOK_SECRET: 'sh0rt!',
    }).split('\n')
    expect(problems).toHaveLength(9)
    for (const name of [
      'CLIENT_GUID',
      'PAGE_SIZE',
      'LOOKBACK',
      'STREAMS',
      'SCHEDULE_ASSIGNMENT',
      'SOURCE_TIMEZONE',
    ])
      expect(problems.find((line) => line.trim().startsWith(name))).toMatch(/ must be /)
  })

  it.each(['+02:00', '-05:30', '+0200', 'CET', 'IST'])(
    'does not take %s for a time zone: Postgres understands it otherwise (P4)',
    (zone) => {
      expect(problemsOf({ ...complete, SOURCE_TIMEZONE: zone })).toMatch(
        /SOURCE_TIMEZONE must be UTC or name a place/,
      )
      expect(problemsOf({ ...complete, FIELD_TIMEZONES: `assignment.plannedStart=${zone}` })).toContain(
        'names no stream, or neither UTC nor a place',
      )
    },
  )

  it.each(['UTC', 'utc', 'GMT', 'Europe/Oslo', 'Etc/GMT+5', 'EST5EDT'])(
    'takes %s for a time zone',
    (zone) => {
      expect(loadConfig({ ...complete, SOURCE_TIMEZONE: zone })).toMatchObject({ sourceTimezone: zone })
    },
  )

  it('names what is not set', () => {
    expect(problemsOf({}).split('\n')).toHaveLength(5)
    expect(problemsOf({})).toContain('API_KEY is not set')
  })

  it('takes an empty value for none', () => {
    expect(loadConfig({ ...complete, DATABASE_URL: '', PAGE_SIZE: ' ' })).toMatchObject({
      databaseUrl: null,
      pageSize: 1000,
    })
  })

  it('reads NAME_FILE, and refuses to choose between two', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-config-'))
    const file = join(directory.path, 'key')
    writeFileSync(file, 'from the file\n')
    const { API_KEY: _, ...withoutKey } = complete
    expect(loadConfig({ ...withoutKey, API_KEY_FILE: file }).apiKey).toBe('from the file')
    expect(problemsOf({ ...complete, API_KEY_FILE: file })).toContain('API_KEY and API_KEY_FILE are both set')
    expect(problemsOf({ ...withoutKey, API_KEY_FILE: `${file}.gone` })).toBe(
      `  API_KEY_FILE names ${file}.gone, which cannot be read (ENOENT)`,
    )
    writeFileSync(file, '\n')
    expect(problemsOf({ ...withoutKey, API_KEY_FILE: file })).toBe(
      `  API_KEY is not set: API_KEY_FILE names ${file}, which is empty`,
    )
    expect(problemsOf({ ...withoutKey, API_KEY_FILE: ' ' })).toBe(
      '  API_KEY is not set: key of the integration user',
    )
  })

  it('reads a .env file as an editor on Windows saves it, and says when it cannot', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-env-'))
    const file = join(directory.path, '.env')
    writeFileSync(file, '\ufeffAPI_KEY="of the file"\r\nPAGE_SIZE=7\r\n')
    expect(readEnvironment(file)).toMatchObject({ API_KEY: 'of the file', PAGE_SIZE: '7' })
    writeFileSync(file, '\ufeffAPI_KEY=wide', 'utf16le')
    expect(() => readEnvironment(file)).toThrow('.env is not UTF-8: save it as UTF-8')
    expect(() => readEnvironment(directory.path)).toThrow('.env cannot be read (EISDIR)')
    expect(readEnvironment(join(directory.path, 'none'))).not.toHaveProperty('API_KEY')
  })

  it('refuses options of Redis that nobody would read, and authorities that are none', () => {
    expect(problemsOf({ ...complete, REDIS_URL: 'rediss://queue.example?tls_verify=none' })).toMatch(
      /REDIS_URL has options .+ its certificate is always verified/,
    )
    expect(loadConfig({ ...complete, REDIS_URL: 'rediss://:a&b@queue.example:6379/2?family=6' })).toBeTruthy()
    expect(problemsOf({ ...complete, EXTRA_CA_FILE: '/nowhere' })).toBe(
      '  EXTRA_CA_FILE names /nowhere, which cannot be read (ENOENT)',
    )
    expect(problemsOf({ ...complete, EXTRA_CA_FILE: 'package.json' })).toContain(
      'holds no certificate in PEM',
    )
  })

  it('takes addresses and networks as trusted proxies, and none that is everybody', () => {
    const given = '127.0.0.1, 10.1.0.0/16,2001:db8::/32,::1'
    expect(loadConfig({ ...complete, TRUSTED_PROXIES: given }).trustedProxies).toHaveLength(4)
    expect(loadConfig(complete).trustedProxies).toEqual([])
    for (const everybody of ['0.0.0.0/0', '::/0'])
      expect(problemsOf({ ...complete, TRUSTED_PROXIES: `10.1.0.0/16,${everybody}` })).toMatch(
        `TRUSTED_PROXIES must not hold ${everybody}, which is everybody: name the addresses or networks`,
      )
    for (const wrong of ['10.0.0.0/33', 'proxy.example', '10.1', '10.0.0.1/', '10.0.0.1/-1'])
      expect(problemsOf({ ...complete, TRUSTED_PROXIES: wrong })).toContain('addresses and networks, such as')
  })

  it('requires signatures of webhooks only where a secret to sign with was agreed on', () => {
    const required = { ...complete, WEBHOOK_SECRET: 'x'.repeat(16), WEBHOOK_REQUIRE_SIGNATURE: 'true' }
    expect(problemsOf(required)).toContain('set WEBHOOK_SIGNING_SECRET to the one that you gave')
    for (const more of [{ WEBHOOK_SIGNING_SECRET: 'y'.repeat(8) }, { PUBLIC_URL: 'https://mirror.example' }])
      expect(loadConfig({ ...required, ...more }).webhookRequireSignature).toBe(true)
  })

  it('finds the log level like any other variable', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-level-'))
    const file = join(directory.path, 'level')
    writeFileSync(file, 'debug\n')
    expect(loadLogLevel({ LOG_LEVEL_FILE: file })).toBe('debug')
    expect(loadLogLevel({ LOG_LEVEL: ' warn ' })).toBe('warn')
    expect(loadLogLevel({})).toBeNull()
    expect(loadLogLevel({ LOG_LEVEL: '' })).toBeNull()
    expect(loadLogLevel({ LOG_LEVEL: 'loud' })).toBeNull()
  })

  it('keeps the address of the alert receiver as a secret, as it is (P9)', () => {
    const url = 'https://hooks.slack.example/services/T0/canary-of-the-config/'
    expect(loadConfig({ ...complete, ALERT_WEBHOOK_URL: url }).alertWebhookUrl).toBe(url)
    expect(redact(`POST ${url}: 404`)).toBe('POST [secret]: 404')
    expect(problemsOf({ ...complete, ALERT_WEBHOOK_URL: 'file:///canary' })).toBe(
      '  ALERT_WEBHOOK_URL must be a URL such as https://hooks.slack.com/services/…',
    )
    expect(problemsOf({ ...complete, ALERT_WEBHOOK_URL: 'https://user:canary@hooks.example/x' })).toBe(
      '  ALERT_WEBHOOK_URL must be a URL without user and password: no request can be sent to one with them',
    )
  })

  it.each([
    'https://user:canary@host.example',
    'https://host.example/?a=canary',
    'https://host.example/#canary',
  ])('takes no base URL with more than a path: %s (P9)', (url) => {
    for (const name of ['ASSIGNMENT_BASE_URL', 'AUTH_URL', 'TRACKING_BASE_URL', 'TRACKING_AUTH_URL'])
      expect(problemsOf({ ...complete, [name]: url })).toBe(
        `  ${name} must be a URL such as https://host.example/path, without user, password, query and fragment`,
      )
  })

  it.each([
    ['redis+sentinel://host:26379/mymaster', 'REDIS_URL is that of Redis Sentinel'],
    ['redis-sentinel://host:26379/mymaster', 'REDIS_URL is that of Redis Sentinel'],
    ['rediss+sentinel://user:canary@one,two/mymaster', 'REDIS_URL is that of Redis Sentinel'],
    ['redis+cluster://host:6379', 'REDIS_URL is that of a Redis Cluster'],
    ['redis-cluster://one:6379,two:6379', 'REDIS_URL is that of a Redis Cluster'],
    ['redis://user:canary@one:6379,two:6379', 'REDIS_URL names several hosts'],
    ['redis://one,two', 'REDIS_URL names several hosts'],
  ])('refuses by name what it does not support yet, with the way out: %s', (REDIS_URL, words) => {
    expect(problemsOf({ ...complete, REDIS_URL })).toBe(
      `  ${words}, which is not supported yet: give the address of one Redis that takes writes, such as redis://host:6379, or unset REDIS_URL to keep the queue in Postgres`,
    )
  })

  it('takes proxies as other programs do, and says for which addresses one is used, without its password (P9)', () => {
    const environment = {
      ...complete,
      HTTPS_PROXY: 'http://elsewhere.example',
      https_proxy: 'somebody:canary-of-proxy@proxy.internal:3128',
      NO_PROXY: 'identity.example, .local',
    }
    const config = loadConfig(environment)
    expect(config.proxies).toEqual({
      https: 'http://somebody:canary-of-proxy@proxy.internal:3128',
      http: null,
      exceptions: ['identity.example', '.local'],
    })
    expect(proxyNotice(config)).toBe(
      'Asked through a proxy: assignments.example through proxy.internal:3128.',
    )
    expect(redact('canary-of-proxy')).toBe('[secret]')
    loadConfig({ ...complete, HTTPS_PROXY: 'open.example:3128', HTTP_PROXY: 'http://second.example:3128' })
    const told = 'the proxy open.example:3128, or http://second.example:3128/, cannot be reached'
    expect(redact(told)).toBe(told)
    expect(proxyNotice(loadConfig(complete))).toBe(null)
    const { proxies } = loadConfig({ ...complete, ALL_PROXY: 'https://all.example' })
    expect(proxies).toMatchObject({ https: 'https://all.example', http: 'https://all.example' })
  })

  it.each([
    [{}, 'ALL_PROXY must be the URL of an HTTP proxy'],
    [{ HTTP_PROXY: 'http://proxy.example' }, 'host of ASSIGNMENT_BASE_URL in NO_PROXY'],
    [{ NO_PROXY: 'identity.example' }, 'host of ASSIGNMENT_BASE_URL in NO_PROXY'],
    [{ NO_PROXY: '*' }, null],
    [{ NO_PROXY: 'assignments.example,identity.example' }, null],
    [{ HTTPS_PROXY: 'http://proxy.example' }, null],
  ])('complains of ALL_PROXY=socks5://… only where it would be used: %j', (more, words) => {
    const environment = { ...complete, ALL_PROXY: 'socks5://proxy.example', ...more }
    if (words !== null) return expect(problemsOf(environment)).toContain(words)
    expect(loadConfig(environment).proxies).toMatchObject({ http: null })
  })

  it.each([
    [
      { ASSIGNMENT_BASE_URL: 'http://api.example/x' },
      'ASSIGNMENT_BASE_URL would send the token and all records to api.example without TLS: use https://, or',
    ],
    [{ AUTH_URL: 'http://8.8.8.8' }, 'AUTH_URL would send API_KEY to 8.8.8.8'],
    [{ TRACKING_BASE_URL: 'http://api.example' }, 'TRACKING_BASE_URL would'],
    [
      { TRACKING_BASE_URL: 'https://api.example', TRACKING_AUTH_URL: 'http://api.example' },
      'TRACKING_AUTH_URL would',
    ],
    [
      { ALERT_WEBHOOK_URL: 'http://hooks.example/x' },
      'ALERT_WEBHOOK_URL would send alerts to hooks.example without TLS: use https://',
    ],
    [
      { REDIS_URL: 'redis://:canary-word@queue.example' },
      'REDIS_URL would send its password and the queue to queue.example without TLS: use rediss://',
    ],
    [{ REDIS_URL: 'redis://134744072' }, 'REDIS_URL would'],
    [
      { DATABASE_URL: 'postgres://u:canary-word@db.example/x?sslmode=disable' },
      'DATABASE_URL would send its password and all rows to db.example without TLS: leave out sslmode=disable',
    ],
    [
      { DATABASE_URL: 'postgres://u:canary-word@db,db.example/x?sslmode=prefer' },
      'DATABASE_URL would send its password and all rows to db.example',
    ],
    [{ DATABASE_URL: 'postgres://u:canary-word@db.example/x?ssl=false' }, 'DATABASE_URL would'],
    [
      { ASSIGNMENT_BASE_URL: 'http://erp.internal', HTTP_PROXY: 'http://proxy.example:3128' },
      'ASSIGNMENT_BASE_URL would send the token and all records to the proxy proxy.example without TLS: use https://, or name erp.internal in NO_PROXY',
    ],
    [
      { HTTPS_PROXY: 'http://u:canary-word@proxy.example:3128' },
      'HTTPS_PROXY (or ALL_PROXY) would send the password of the proxy to proxy.example without TLS: use an https:// URL',
    ],
    [
      { CONTRACT: 'http://docs.example/v1.json?key=canary-word' },
      'CONTRACT would send its path and query to',
    ],
    [
      { PUBLIC_URL: 'http://hooks.example', WEBHOOK_SECRET: 'canary-word-0123456789' },
      'PUBLIC_URL would let WEBHOOK_SECRET be sent to hooks.example without TLS: use https://',
    ],
  ])(
    'refuses plain text over public networks in one sentence, unless it is allowed (P9): %s',
    (urls, words) => {
      const environment = { ...complete, ...urls }
      const problem = problemsOf(environment)
      expect(problem).toMatch(/^ {2}[^\n]* set ALLOW_PLAINTEXT=true if nobody else can listen on the way$/)
      expect(problem.trim().startsWith(words), problem).toBe(true)
      expect(problem).not.toContain('canary-word')
      expect(problemsOf({ ...environment, ALLOW_PLAINTEXT: 'true' })).toBe('')
    },
  )

  it.each([
    ...[
      'localhost',
      '127.0.0.1:8080',
      '[::1]:8080',
      'upstream',
      'upstream.',
      '10.1.2.3',
      '172.31.0.1',
      '192.168.1.1',
    ],
    ...['169.254.1.1', '[fd12::1]', '[fe80::1]', 'app.localhost', 'nas.local', 'api.corp.internal'],
    ...['redis.queue.svc', 'redis.queue.svc.cluster.local', 'host.docker.internal'],
  ])('takes plain text to private hosts: %s', (host) => {
    const urls = {
      ASSIGNMENT_BASE_URL: `http://${host}`,
      AUTH_URL: `http://${host}`,
      REDIS_URL: `redis://${host}`,
    }
    const DATABASE_URL = `postgres://u:p@${host}/x?sslmode=disable`
    expect(problemsOf({ ...complete, ...urls, DATABASE_URL })).toBe('')
  })

  it.each(['172.32.0.1', '11.0.0.1', '[2001:db8::1]', 'a.example', 'local.example', 'internal.evil.example'])(
    'takes none to others: %s',
    (host) => expect(problemsOf({ ...complete, AUTH_URL: `http://${host}` })).toContain('AUTH_URL would'),
  )

  it('keeps the password of a Postgres with several hosts secret, and refuses what libpq would (P9)', () => {
    const url = 'postgres://worker:canary-of-hosts@one:5432,two:5433/mirror'
    expect(loadMirrorConfig({ DATABASE_URL: url }).databaseUrl).toBe(url)
    expect(redact('it was canary-of-hosts')).toBe('it was [secret]')
    expect(problemsOf({ ...complete, DATABASE_URL: `${url}?target_session_attrs=master` })).toBe(
      '  DATABASE_URL says target_session_attrs=master; it must be one of any, read-write, read-only, primary, standby, prefer-standby',
    )
  })

  it('shows what a URL looks like, also where the example itself would be taken for a secret', () => {
    const problem = problemsOf({ ...complete, DATABASE_URL: 'mysql://host/database' })
    expect(problem).toContain('such as postgres://')
    expect(redact(problem)).toBe(problem)
  })

  it('asks for TRACKING_BASE_URL when trackers are wanted', () => {
    expect(problemsOf({ ...complete, STREAMS: 'tracker_object' })).toContain('TRACKING_BASE_URL')
  })

  it('takes "all" for every stream that is configured, without trackers where there is no service for them', () => {
    const namesOf = (environment: Record<string, string>) =>
      streamsIn(loadConfig({ ...complete, ...environment })).map(({ name }) => name)
    expect(namesOf({ STREAMS: 'all' })).toEqual(namesOf({}))
    expect(namesOf({ STREAMS: 'all' })).not.toContain('tracker_object')
    const TRACKING_BASE_URL = 'https://tracking.example'
    expect(namesOf({ STREAMS: 'all, assignment_note', TRACKING_BASE_URL })).toContain('tracker_object')
  })

  it('takes cron expressions, with five fields or more', () => {
    expect(loadConfig({ ...complete, SCHEDULE_ASSIGNMENT: '*/5 * * * *' }).schedules.assignment).toEqual({
      cron: '*/5 * * * *',
    })
    expect(problemsOf({ ...complete, SCHEDULE_ASSIGNMENT: '*' })).toContain('SCHEDULE_ASSIGNMENT')
    expect(problemsOf({ ...complete, SCHEDULE_ASSIGNMENT: '99 * * * *' })).toContain('SCHEDULE_ASSIGNMENT')
  })

  it('takes groups of related records, and durations that may be off', () => {
    const all = loadConfig({ ...complete, RELATED: 'true', TRACKER_HISTORY: 'off' })
    expect(all.related).toHaveLength(6)
    expect(all).toMatchObject({
      attachmentData: false,
      histories: {},
      relatedRefreshMs: 86_400_000,
    })
    expect(loadConfig({ ...complete, RELATED: 'customer, attachment' }).related).toEqual([
      'customer',
      'attachment',
    ])
    expect(problemsOf({ ...complete, RELATED: 'customers' })).toContain('RELATED must be true, false')
    expect(problemsOf({ ...complete, ATTACHMENT_DATA: 'true' })).toContain('ATTACHMENT_DATA needs RELATED')
    expect(problemsOf({ ...complete, ATTACHMENT_DATA: 'yes', RELATED: 'true' })).toContain('true or false')
    expect(problemsOf({ ...complete, TRACKER_HISTORY: '1h' })).toContain('at least 1 d')
  })

  it('takes streams whose past is kept, for ever or for a time', () => {
    const historiesOf = (HISTORY: string) => loadConfig({ ...complete, HISTORY }).histories
    const ever = Number.POSITIVE_INFINITY
    expect(historiesOf('')).toEqual({ tracker_object: 90 * 86_400_000 })
    expect(historiesOf('assignment, assignment_note=365d,tracker_object')).toEqual({
      assignment: ever,
      assignment_note: 365 * 86_400_000,
      tracker_object: ever,
    })
    const names = streams.flatMap(({ name }) => (name === 'tracker_object' ? [] : name))
    const day = 86_400_000
    expect(historiesOf('all')).toEqual({
      ...Object.fromEntries(names.map((name) => [name, ever])),
      tracker_object: 90 * day,
    })
    expect(historiesOf('all=30d,assignment=2d,tracker_object=5d')).toEqual({
      ...Object.fromEntries(names.map((name) => [name, 30 * day])),
      assignment: 2 * day,
      tracker_object: 5 * day,
    })
    for (const HISTORY of [
      'asignment',
      'assignment=1h',
      'assignment=soon',
      'assignment=',
      'assignment=365d=1d',
      'customer',
      'all=1h',
    ])
      expect(problemsOf({ ...complete, HISTORY }), HISTORY).toContain(
        'HISTORY must be a comma-separated list',
      )
  })

  it('names a variable of a stream that is misspelt, and leaves alone what is near to none', () => {
    expect(problemsOf({ ...complete, SCHEDULE_ASSIGNMENTS: '5s' })).toBe(
      '  SCHEDULE_ASSIGNMENTS does not name a stream: did you mean SCHEDULE_ASSIGNMENT?',
    )
    for (const [name, meant] of [
      ['SCHEDULE_TRACKERS', 'SCHEDULE_TRACKER_OBJECT'],
      ['SCHEDULE_ASSIGNMENT_NOTES_FILE', 'SCHEDULE_ASSIGNMENT_NOTE_FILE'],
      ['SCHEDULE_RECONCLIE', 'SCHEDULE_RECONCILE'],
      ['KEY_ASSIGNMENT', 'KEY_ASSIGNMENT_OBJECT'],
      ['KEY_CUSTOMERS', 'KEY_CUSTOMER'],
      ['VERSION_ASSIGNMENTS', 'VERSION_ASSIGNMENT'],
      ['VOLATILE_ASSIGNMENTS', 'VOLATILE_ASSIGNMENT'],
    ] as const)
      expect(problemsOf({ ...complete, [name]: 'x' })).toContain(
        `${name} does not name a stream: did you mean ${meant}?`,
      )
    for (const name of [
      'KEY_VAULT_NAME',
      'KEY_STORE',
      'KEY_USER',
      'KEY_CLUSTER',
      'KEY_FILE',
      'SCHEDULE_BACKUP',
    ])
      expect(problemsOf({ ...complete, [name]: 'x' })).toBe('')
    expect(problemsOf({ ...complete, SCHEDULE_ASSIGNMENTS: '' })).toBe('')
  })

  it('takes volatile fields of a stream as a list, and none for an empty one', () => {
    const chosen = (value: string) =>
      loadConfig({ ...complete, VOLATILE_ASSIGNMENT: value }).volatileFields.assignment
    expect(chosen('DownloadUrl, thumbnailURL')).toEqual(['downloadurl', 'thumbnailurl'])
    expect(chosen('none')).toEqual([])
    expect(chosen('')).toBeNull()
  })

  it('needs no credentials to look at the mirror', () => {
    expect(loadMirrorConfig({})).toMatchObject({ databaseUrl: null, biRole: null })
  })
})

describe('the table of variables', () => {
  const text = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
  const documented = [
    ...Object.entries(variables),
    ['SCHEDULE_<STREAM>', null] as const,
    ['KEY_<STREAM>', null] as const,
    ['VERSION_<STREAM>', null] as const,
    ['VOLATILE_<STREAM>', null] as const,
  ]

  it('is the one in the manual', () => {
    const rows = [
      ...text('docs/reference/configuration.md').matchAll(
        /^\| `([A-Z_<>]+)` \| (.*?) \| (.*?) \| (.*) \|$/gm,
      ),
    ]
    expect(rows.map(([, name]) => name).toSorted()).toEqual(documented.map(([name]) => name).toSorted())
    for (const [, name = '', fallback = '', form, describe = ''] of rows) {
      const variable = variables[name]
      if (!variable) continue
      expect([name, fallback.replaceAll('*', ''), form, describe.toLowerCase()]).toEqual([
        name,
        variable.fallback.replaceAll('*', ''),
        variable.form,
        `${variable.describe}.`.toLowerCase(),
      ])
    }
  })

  it('is the one in .env.example', () => {
    const names = [...text('.env.example').matchAll(/^#? ?([A-Z_]+)=/gm)].map(([, name]) => name)
    expect(names.toSorted()).toEqual(
      [
        ...Object.keys(variables),
        'SCHEDULE_ASSIGNMENT',
        'KEY_TRACKER_OBJECT',
        'VERSION_ASSIGNMENT',
        'VOLATILE_ASSIGNMENT',
      ].toSorted(),
    )
  })
})
