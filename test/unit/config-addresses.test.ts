// Which addresses the settings may hold, and what is said of those that would show a secret to others (P9).

import { describe, expect, it } from 'vitest'
import { loadConfig, loadMirrorConfig } from '../../src/config/load.ts'
import { proxyNotice } from '../../src/configured.ts'
import { redact } from '../../src/log.ts'
import { readRedisUrl } from '../../src/util/redis-url.ts'
import { complete, problemsOf } from '../support/settings.ts'

describe('loadConfig', () => {
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

  const usual = {
    user: '',
    password: '',
    db: 0,
    family: 0,
    primary: '',
    sentinelUser: '',
    sentinelPassword: '',
  }
  const one = { ...usual, kind: 'single', hosts: [{ host: 'one', port: 6379 }], isTls: false }
  const sentinels = {
    ...{ ...one, kind: 'sentinel', primary: 'mymaster' },
    hosts: [
      { host: 'one', port: 26379 },
      { host: 'two', port: 26380 },
    ],
  }
  it.each([
    ['redis://one', one],
    ['REDIS://one:6379/', one],
    ['redis://', { ...one, hosts: [{ host: 'localhost', port: 6379 }] }],
    [
      'rediss://[::1]:7000/2?family=6',
      { ...one, hosts: [{ host: '::1', port: 7000 }], isTls: true, db: 2, family: 6 },
    ],
    ['redis://:a%40b:c@one?db=3', { ...one, password: 'a@b:c', db: 3 }],
    ['redis://app:word@one', { ...one, user: 'app', password: 'word' }],
    ['redis+sentinel://one,two:26380/mymaster', sentinels],
    ['redis-sentinel://one:26379,two:26380/mymaster/0', sentinels],
    [
      'rediss+sentinel://app:a,b@one,two:26380/mymaster/4?sentinelUsername=w&sentinelPassword=p%26q',
      {
        ...sentinels,
        isTls: true,
        user: 'app',
        password: 'a,b',
        db: 4,
        sentinelUser: 'w',
        sentinelPassword: 'p&q',
      },
    ],
    ['redis+cluster://one', { ...one, kind: 'cluster' }],
    [
      'rediss-cluster://app@one,two:7000',
      {
        ...one,
        kind: 'cluster',
        isTls: true,
        user: 'app',
        hosts: [...one.hosts, { host: 'two', port: 7000 }],
      },
    ],
  ])('reads where Redis is: %s', (url, read) => {
    expect(readRedisUrl(url)).toEqual(read)
  })

  it.each([
    ['http://one', 'must be a URL such as redis://host:6379'],
    [
      'redis://user:canary@one:6379,two',
      'names several hosts, but not what they are: write redis+sentinel://host:26379,other:26379/NAME',
    ],
    ['redis+sentinel://u:canary@one,two', 'names no primary: write its name after the hosts'],
    ['redis+sentinel://one/mymaster/first', 'names a database that is none: write its number as the last'],
    ['redis://one/0/canary', 'has a path that is too long'],
    ['redis://one/mymaster', 'names a database that is none'],
    ['redis+cluster://one/1', 'names a database, but a Redis Cluster has only database 0'],
    ['redis://one:canary', 'names a port that is none'],
    ['redis://one?family=canary', 'names a family of addresses that is none: write 4 or 6'],
    ['redis://u:can%ary@one', 'has a percent sign that stands for no other character: write %25 for it'],
    [
      'redis+cluster://one?sentinelPassword=canary',
      'names no sentinels, but a user or password of sentinels is set',
    ],
    ['redis+sentinel://one/mymaster?role=canary', 'has options that Tidemark does not know'],
  ])(
    'says in one line what is wrong with an address of Redis, without what may be its password (P9): %s',
    (REDIS_URL, words) => {
      const problems = problemsOf({ ...complete, REDIS_URL })
      expect(problems).toContain(`  REDIS_URL ${words}`)
      expect(problems.split('\n')).toHaveLength(1)
      expect(problems).not.toContain('canary')
    },
  )

  it('adds the passwords beside an address of Redis to it, and cuts both from what is printed (P9)', () => {
    const passwords = { REDIS_PASSWORD: 'can@ry,of:redis', REDIS_SENTINEL_PASSWORD: 'canary&of-sentinels' }
    const REDIS_URL = 'redis+sentinel://app@one,two/mymaster?sentinelUsername=w'
    const { redisUrl } = loadConfig({ ...complete, ...passwords, REDIS_URL })
    expect(readRedisUrl(redisUrl ?? '')).toMatchObject({
      ...{ user: 'app', password: passwords.REDIS_PASSWORD, primary: 'mymaster' },
      ...{ sentinelUser: 'w', sentinelPassword: passwords.REDIS_SENTINEL_PASSWORD },
    })
    expect(redact(`${Object.values(passwords)}`)).toBe('[secret],[secret]')
    const own = 'redis+sentinel://one,two/mymaster?sentinelPassword=own%26canary'
    expect(loadConfig({ ...complete, ...passwords, REDIS_URL: own }).redisUrl).toMatch(/=own%26canary$/)
    expect(redact('AUTH w own&canary')).toBe('AUTH w [secret]')
    expect(problemsOf({ ...complete, SHARE_TOKENS: 'true' })).toMatch(
      /^.*SHARE_TOKENS is true.*set REDIS_URL/,
    )
    expect(problemsOf({ ...complete, SHARE_TOKENS: 'true', REDIS_URL: 'redis://one' })).toBe('')
    expect(problemsOf({ ...complete, REDIS_URL: 'redis://one', REDIS_SENTINEL_PASSWORD: 'canary' })).toMatch(
      /REDIS_URL names no sentinels, but .+ REDIS_SENTINEL_PASSWORD/,
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
      { REDIS_URL: 'redis+sentinel://:canary-word@queue,queue.example/mymaster' },
      'REDIS_URL would send its password and the queue to queue.example without TLS: use rediss+sentinel://',
    ],
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
    [
      { TIDEMARK_URL: 'http://console.example', TIDEMARK_TOKEN: 'canary-word-0123456789' },
      'TIDEMARK_URL would send TIDEMARK_TOKEN to console.example without TLS: use https://',
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
})
