// What the settings mean, what is said of wrong ones, and that the manual names each.

import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { scheduleOf } from '../../src/config/dynamic-settings.ts'
import { readEnvironment } from '../../src/config/environment.ts'
import { loadConfig, loadLogLevel, loadMirrorConfig } from '../../src/config/load.ts'
import { streamVariables } from '../../src/config/stream-variables.ts'
import { variables } from '../../src/config/variables.ts'
import { streamsIn } from '../../src/configured.ts'
import { redact } from '../../src/log.ts'
import { relatedStreams, knownStreams as streams } from '../../src/streams/catalog.ts'
import { complete, dynamicIn, problemsOf } from '../support/settings.ts'

describe('loadConfig', () => {
  it('fills in the defaults, and the sign-in of the tracking service from the other one', () => {
    expect(loadConfig(complete)).toMatchObject({
      assignmentBaseUrl: 'https://assignments.example/base',
      databaseUrl: null,
      redisUrl: null,
      trackingBaseUrl: null,
      trackingAuthUrl: 'https://identity.example',
      trackingSubjectId: 'integration',
      requestTimeoutMs: 60_000,
      sourceTimezone: 'UTC',
      indexes: 'auto',
      httpPort: 8080,
    })
    const dynamic = loadConfig(complete).dynamic.now()
    expect(dynamic).toMatchObject({
      ...{ lookbackMs: 600_000, pageSize: 1000, requestsPerSecond: null },
      scheduleReconcile: { cron: '0 3 * * *' },
    })
    expect(loadConfig(complete).secretFiles.keyOf('tracking')).toBe('a key of the tests')
    const everyMs = streams.map((stream) => [stream.name, scheduleOf(dynamic, stream)])
    expect(Object.fromEntries(everyMs)).toMatchObject({
      assignment: { everyMs: 30_000 },
      tracker_object: { everyMs: 60_000 },
      webhook_definition: { everyMs: 3_600_000 },
    })
  })

  it('puts a password that stands alone into the address, unless that has one', () => {
    const password = `a'b "c$ #d/e@f:%41`
    const databaseUrlOf = (DATABASE_URL: string) =>
      loadMirrorConfig({ DATABASE_URL, DATABASE_PASSWORD: password }).databaseUrl ?? ''
    expect(decodeURIComponent(new URL(databaseUrlOf('postgres://worker@one:5432/mirror')).password)).toBe(
      password,
    )
    expect(databaseUrlOf('postgres://worker@one:5432,two:5432/mirror')).toMatch(
      /^postgres:\/\/worker:[^@]+@one:5432,two/,
    )
    expect(databaseUrlOf('postgres://worker:own@one/mirror')).toBe('postgres://worker:own@one/mirror')
    const { redisUrl } = loadConfig({
      ...complete,
      REDIS_URL: 'redis://localhost:6379/1',
      REDIS_PASSWORD: password,
    })
    expect(redisUrl).toBe(`redis://:${encodeURIComponent(password)}@localhost:6379/1`)
    expect(redact(`said ${password} and ${encodeURIComponent(password)}`)).toBe('said [secret] and [secret]')
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
      HOST_REQUESTS_PER_SECOND: 'api.example=fast',
      HTTP_PORT: '70000',
      // Whatever the tests of this process print is cut of it.
      WEBHOOK_SECRET: 'sh0rt!',
    }).split('\n')
    expect(problems).toHaveLength(10)
    for (const name of [
      'CLIENT_GUID',
      'PAGE_SIZE',
      'LOOKBACK',
      'STREAMS',
      'SCHEDULE_ASSIGNMENT',
      'SOURCE_TIMEZONE',
      'HOST_REQUESTS_PER_SECOND',
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
    const config = loadConfig({ ...complete, DATABASE_URL: '', PAGE_SIZE: ' ' })
    expect({ ...config, ...config.dynamic.now() }).toMatchObject({
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

  it('asks for TRACKING_BASE_URL when trackers are wanted', () => {
    expect(problemsOf({ ...complete, STREAMS: 'tracker_object' })).toContain('TRACKING_BASE_URL')
    expect(problemsOf({ ...complete, STREAMS: 'all,dictionary=/api/Dictionary' })).toContain(
      'choose another name',
    )
  })

  it('asks for MASK_KEY before anything is masked by a hash, and takes years for a time (P20)', () => {
    using directory = mkdtempDisposableSync(join(tmpdir(), 'tidemark-masks-'))
    const DICTIONARY = join(directory.path, 'dictionary.yml')
    writeFileSync(DICTIONARY, 'assignment:\n  fields:\n    email: { mask: hash }\n')
    expect(problemsOf({ ...complete, DICTIONARY })).toContain(
      'MASK_KEY is not set, and DICTIONARY masks assignment.email',
    )
    expect(problemsOf({ ...complete, DICTIONARY, MASK_KEY: 'too few' })).toContain('at least 16 characters')
    const MASK_KEY = 'a secret of sixteen'
    expect(loadConfig({ ...complete, DICTIONARY, MASK_KEY, FORGET_DELETED: '2y' })).toMatchObject({
      ...{ maskKey: MASK_KEY, forgetDeletedMs: 730 * 86_400_000 },
    })
    expect(redact(MASK_KEY)).toBe('[secret]')
    expect(problemsOf({ ...complete, FORGET_DELETED: '1h' })).toContain('at least 1 d')
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
    expect(dynamicIn({ SCHEDULE_ASSIGNMENT: '*/5 * * * *' }).now().ofStreams.SCHEDULE.assignment).toEqual({
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
      relatedRefreshMs: 86_400_000,
    })
    expect(all.dictionary.now().get('tracker_object')?.historyMs).toBe(0)
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
    const historiesOf = (HISTORY: string) =>
      Object.fromEntries(
        [...loadConfig({ ...complete, HISTORY }).dictionary.now()].flatMap(([name, { historyMs }]) =>
          historyMs === null ? [] : [[name, historyMs]],
        ),
      )
    const ever = Number.POSITIVE_INFINITY
    expect(historiesOf('')).toEqual({ tracker_object: 90 * 86_400_000 })
    expect(historiesOf('assignment, assignment_note=365d,tracker_object')).toEqual({
      assignment: ever,
      assignment_note: 365 * 86_400_000,
      tracker_object: ever,
    })
    const names = [...streams, ...relatedStreams].flatMap(({ name }) =>
      ['tracker_object', 'attachment_data'].includes(name) ? [] : name,
    )
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
      'customers',
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

  it('takes an identity provider only with what it needs, headers in small letters, and no proxy that is everybody', () => {
    const provider = { OIDC_ISSUER: 'https://login.example', OIDC_CLIENT_ID: 'tidemark' }
    const own = { CONSOLE_URL: 'https://tidemark.example' }
    expect(
      loadConfig({ ...complete, ...provider, ...own, IDENTITY_USER_HEADER: 'Remote-User' }),
    ).toMatchObject({
      ...{ oidcScope: 'openid profile email', oidcRoleClaim: 'roles', oidcNameClaim: 'preferred_username' },
      ...{
        identityUserHeader: 'remote-user',
        identityGroupsHeader: 'x-forwarded-groups',
        sessionMs: 43_200_000,
      },
      ...{
        adminGroups: ['tidemark-admin'],
        operatorGroups: ['tidemark-operator'],
        viewerGroups: ['tidemark-viewer'],
      },
    })
    for (const [wrong, problem] of [
      [{ ...own, OIDC_ISSUER: 'https://login.example' }, 'set OIDC_CLIENT_ID, too'],
      [provider, 'set CONSOLE_URL, too'],
      [
        { ...own, ...provider, OIDC_ISSUER: 'http://login.example.com' },
        'OIDC_ISSUER would send who signs in',
      ],
      [{ ...own, ...provider, OIDC_SCOPE: 'profile' }, 'OIDC_SCOPE must begin with openid'],
      [{ IDENTITY_PROXIES: '0.0.0.0/0' }, 'IDENTITY_PROXIES must not hold 0.0.0.0/0'],
      [{ IDENTITY_USER_HEADER: 'X User' }, 'IDENTITY_USER_HEADER must be the name of a header'],
      [{ SESSION_LASTS: '1s' }, 'SESSION_LASTS'],
    ] as const)
      expect(problemsOf({ ...complete, ...wrong })).toContain(problem)
  })

  it('takes volatile fields of a stream as a list, and none for an empty one', () => {
    const chosen = (value: string) =>
      loadConfig({ ...complete, VOLATILE_ASSIGNMENT: value })
        .dictionary.now()
        .get('assignment')?.volatile
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
    ...Object.keys(streamVariables).map((family) => [`${family}_<STREAM>`, null] as const),
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
        ...['KEY_TRACKER_OBJECT', 'SCHEDULE_ASSIGNMENT', 'PAGE_SIZE_ASSIGNMENT', 'LOOKBACK_ASSIGNMENT'],
        ...['READ', 'SETTLED', 'DELETIONS'].map((time) => `TARGET_${time}_ASSIGNMENT`),
        ...['VERSION_ASSIGNMENT', 'VOLATILE_ASSIGNMENT'],
      ].toSorted(),
    )
  })
})
