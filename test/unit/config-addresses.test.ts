// Which addresses the settings may hold, and what is said of those that would show a secret to others (P9).

import { describe, expect, it } from 'vitest'
import { loadConfig, loadMirrorConfig } from '../../src/config/load.ts'
import { proxyNotice } from '../../src/configured.ts'
import { redact } from '../../src/log.ts'
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
