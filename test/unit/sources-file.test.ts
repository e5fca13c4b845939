// The file of sources: what it says of each, and what is told of mistakes: one line each, with file, line and the nearest name.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig, signingSecretOf } from '../../src/config/load.ts'
import { environmentOfSource, parseSourcesFile, whyNotNamed } from '../../src/config/sources-file.ts'
import { complete } from '../support/settings.ts'
import { runHere } from '../support/verbs.ts'

const guid = (digit: number) => `00000000-0000-4000-8000-00000000000${digit}`
const environment = {
  ...complete,
  ...{
    PAGE_SIZE: '17',
    ACME_KEY: 'the key of acme',
    DATABASE_URL: 'postgres://db.example/tidemark?sslmode=verify-full',
  },
}
const parse = (text: string) => parseSourcesFile('sources.yaml', Buffer.from(text), environment)
const problems = (text: string): readonly string[] => {
  try {
    parse(text)
  } catch (error) {
    return (error as Error).message.split('\n')
  }
  return []
}
const defaults = `defaults:
  assignment_base_url: https://api.example/assignment
  auth_url: https://id.example
  subject_id: tidemark
  api_key: env:ACME_KEY
`

describe('the file of sources', () => {
  it('gives each source a secret for webhooks that no other can be told from, unless it names one', () => {
    const { sources } = parse(`${defaults}sources:
  acme: { client_guid: ${guid(1)} }
  beta: { client_guid: ${guid(2)} }
  own: { client_guid: ${guid(3)}, webhook_secret: env:OWN_HOOK, webhook_signing_secret: env:OWN_SIGN }
`)
    const secretsOf = (source: string, WEBHOOK_SECRET?: string) => {
      const config = loadConfig(
        environmentOfSource(
          { ...environment, WEBHOOK_SECRET, OWN_HOOK: 'a-hook-of-its-own', OWN_SIGN: 'a sign of its own' },
          source,
          sources.get(source)?.settings ?? {},
        ),
      )
      return [config.webhookSecret, signingSecretOf(config)]
    }
    const [master, another] = ['a-webhook-secret-of-the-tests', 'another-webhook-secret-here']
    const all = [secretsOf('acme', master), secretsOf('beta', master), secretsOf('acme', another)].flat()
    expect(new Set([...all, master]).size).toBe(7)
    for (const secret of all) expect(secret).toMatch(/^[\w-]{32}$/)
    expect(secretsOf('acme', master)).toEqual(all.slice(0, 2))
    expect(secretsOf('acme')).toEqual([null, null])
    expect(secretsOf('own', master)).toEqual(['a-hook-of-its-own', 'a sign of its own'])
    expect(
      problems(
        `${defaults}sources:\n  acme: { client_guid: ${guid(1)}, webhook_secret: a-secret-in-the-file }`,
      ),
    ).toEqual([expect.stringContaining('must be env:NAME or file:PATH')])
  })

  it('names the variable that a secret should be in, when it is not set', () => {
    const { sources } = parse(`${defaults}sources:\n  acme: { client_guid: ${guid(1)} }`)
    const settings = sources.get('acme')?.settings ?? {}
    const { ACME_KEY: _, ...without } = environment
    expect(() => loadConfig(environmentOfSource(without, 'acme', settings))).toThrow(
      'API_KEY is not set: the file of sources takes it from ACME_KEY, which is not set',
    )
  })

  it('fails its check with 2 when the settings are the mistake, and nobody was asked', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'sources-')), 'sources.yaml')
    writeFileSync(file, `${defaults}sources:\n  acme: { client_guid: ${guid(1)} }`)
    const { ACME_KEY: _, ...without } = environment
    const { code, stdout } = await runHere(['sources', 'check'], { ...without, SOURCES_FILE: file })
    expect({ code, stdout }).toEqual({
      ...{
        code: 2,
        stdout: 'acme: API_KEY is not set: the file of sources takes it from ACME_KEY, which is not set\n',
      },
    })
  })

  it('gives each source its settings: its own, those of the one it is made from, and the defaults', () => {
    const { sources, generation } = parse(`generation: 42
${defaults}sources:
  acme:
    client_guid: ${guid(1)}
    streams: [assignment, customers=/api/Customer]
    tags: [production]
    schedule_assignment: 45s
    key_customers: CustomerId
    page_size: 50
    host_requests_per_second: [api.example=50, other.example=0.5]
  acme_stage:
    from: acme
    assignment_base_url: https://stage.example/assignment
    api_key: file:/run/secrets/acme_stage
`)
    expect(generation).toBe(42)
    expect([...sources.keys()]).toEqual(['acme', 'acme_stage'])
    const acme = sources.get('acme')
    expect(acme?.tags).toEqual(['production'])
    expect(sources.get('acme_stage')?.settings).toMatchObject({
      ASSIGNMENT_BASE_URL: 'https://stage.example/assignment',
      CLIENT_GUID: guid(1),
      API_KEY: 'file:/run/secrets/acme_stage',
      PAGE_SIZE: '50',
    })
    const config = loadConfig(environmentOfSource(environment, 'acme', acme?.settings ?? {}))
    expect(config).toMatchObject({
      ...{ source: 'acme', clientGuid: guid(1), apiKey: 'the key of acme' },
      ...{ databaseUrl: environment.DATABASE_URL, streams: ['acme.assignment', 'acme.customers'] },
      added: [{ name: 'acme.customers', path: '/api/Customer' }],
    })
    expect(config.dynamic.now().pageSize).toBe(50)
    expect([...config.hostRequestsPerSecond]).toEqual([
      ['api.example', 50],
      ['other.example', 0.5],
    ])
    expect(config.dynamic.now().ofStreams.SCHEDULE['acme.assignment']).toEqual({ everyMs: 45_000 })
    expect(config.dictionary.now().get('acme.customers')?.key).toBe('CustomerId')
  })

  it('makes groups of sources by tag and by name, for views over them', () => {
    const file = (unions: string) => `${defaults}sources:
  acme: { client_guid: ${guid(1)}, tags: [production] }
  beta: { client_guid: ${guid(2)}, tags: [production, norway] }
  gamma: { client_guid: ${guid(3)} }
unions:
${unions}`
    expect([
      ...parse(
        file(
          '  production: { tags: [production] }\n  mine: { sources: [environment, gamma], tags: [norway] }',
        ),
      ).unions,
    ]).toEqual([
      ['production', ['acme', 'beta']],
      ['mine', ['beta', 'environment', 'gamma']],
    ])
    expect(
      problems(file('  Wrong: { sources: [gama] }\n  none: { tags: [stage] }\n  other: { tag: [stage] }')),
    ).toEqual([
      expect.stringContaining('sources.yaml:13: unions.other.tag is no setting: did you mean tags?'),
    ])
    expect(problems(file('  Wrong: { sources: [gama] }\n  none: { tags: [stage] }'))).toEqual([
      expect.stringMatching(/^sources.yaml:11: unions.Wrong is no name for a group/),
      expect.stringMatching(/^sources.yaml:11: unions.Wrong.sources\[1\] is .*gamma/),
      expect.stringMatching(/^sources.yaml:12: unions.none has no source/),
    ])
  })

  it('takes nothing from the environment that a source says for itself', () => {
    const { sources } = parse(`${defaults}sources:\n  acme: { client_guid: ${guid(1)} }`)
    expect(
      loadConfig(environmentOfSource(environment, 'acme', sources.get('acme')?.settings ?? {})).dynamic.now()
        .pageSize,
    ).not.toBe(17)
  })

  it.each([
    [
      'an unknown key',
      `${defaults}sources:\n  acme:\n    client_giud: ${guid(1)}`,
      /^sources\.yaml:8: sources\.acme\.client_giud is no setting: did you mean client_guid\?$/,
    ],
    [
      'a secret',
      `${defaults}sources:\n  acme:\n    client_guid: ${guid(1)}\n    api_key: abcdef`,
      /^sources\.yaml:9: sources\.acme\.api_key must be env:NAME or file:PATH/,
    ],
    [
      'a reserved name',
      `${defaults}sources:\n  bi: { client_guid: ${guid(1)} }`,
      /^sources\.yaml:7: sources\.bi is a name that Postgres or Tidemark uses$/,
    ],
    [
      'a name like a schema',
      `${defaults}sources:\n  acme_mirror: { client_guid: ${guid(1)} }`,
      /ends like the schemas of another source$/,
    ],
    [
      'two alike',
      `${defaults}sources:\n  acme: { client_guid: ${guid(1)} }\n  acme: { client_guid: ${guid(2)} }`,
      /^sources\.yaml:8: sources\.acme is there twice: remove one of them$/,
    ],
    [
      'a GUID twice',
      `${defaults}sources:\n  acme: { client_guid: ${guid(1)} }\n  other: { client_guid: ${guid(1)} }`,
      /^sources\.yaml:8: sources\.other has the client_guid and the address of acme/,
    ],
    [
      'the GUID of the environment',
      `${defaults}sources:\n  acme: { client_guid: ${complete.CLIENT_GUID}, assignment_base_url: "https://assignments.example/base" }`,
      /^sources\.yaml:7: sources\.acme has the client_guid and the address of the source that the environment describes/,
    ],
    ['nothing at all', '', /^sources\.yaml:1: sources must be a list of sources/],
    [
      'one that is made from what every object has',
      `${defaults}sources:\n  acme: { from: constructor }`,
      /^sources\.yaml:7: sources\.acme\.from is no source/,
    ],
    [
      'one that is made from nobody',
      `${defaults}sources:\n  acme: { from: acmee }`,
      /^sources\.yaml:7: sources\.acme\.from is no source/,
    ],
    [
      'one that is made from itself',
      `${defaults}sources:\n  acme: { from: other }\n  other: { from: acme }`,
      /leads back to itself$/,
    ],
    [
      'a missing setting',
      `${defaults}sources:\n  acme: { page_size: 50 }`,
      /^sources\.yaml:7: sources\.acme lacks client_guid/,
    ],
    [
      'a wrong value',
      `${defaults}sources:\n  acme:\n    client_guid: here`,
      /^sources\.yaml:8: sources\.acme\.client_guid must be a GUID/,
    ],
    [
      'a wrong default',
      `${defaults}  page_size: many\nsources:\n  acme: { client_guid: ${guid(1)} }`,
      /^sources\.yaml:6: defaults\.page_size must be/,
    ],
    [
      'a setting for all',
      `${defaults}sources:\n  acme: { client_guid: ${guid(1)}, http_port: "80" }`,
      /^sources\.yaml:7: sources\.acme\.http_port is no setting/,
    ],
    ['tabs', `sources:\n\tacme: {}`, /^sources\.yaml:2: is no YAML/],
    [
      'too many',
      `sources:\n${Array.from({ length: 1_001 }, (_, i) => `  s${i}: {}`).join('\n')}`,
      /^sources\.yaml:1: sources names 1001 sources/,
    ],
  ])('tells %s in one line', (_, text, line) => {
    const told = problems(text)
    expect(told.length).toBeGreaterThan(0)
    expect(told[0]).toMatch(line)
    expect(told.join()).not.toContain('abcdef')
  })

  it('tells a mistake in the defaults once, however many sources go by them', () => {
    const sources = Array.from({ length: 9 }, (_, i) => `  s${i + 1}: { client_guid: ${guid(i + 1)} }`)
    expect(
      problems(
        `${defaults}  page_size: many\n  mask_key: abcdef\nsources:\n  own: { client_guid: ${guid(0)}, page_size: 50 }\n${sources.join('\n')}`,
      ),
    ).toEqual([
      expect.stringMatching(/^sources\.yaml:7: defaults\.mask_key must be env:NAME or file:PATH/),
      expect.stringMatching(/^sources\.yaml:6: defaults\.page_size must be a whole number .*\d$/),
    ])
  })

  it('names the sources when the defaults are wrong for some of them only', () => {
    const tracked = `tracking_base_url: https://tracking.example`
    const of = (more: number) =>
      problems(
        `${defaults}  streams: [tracker_object]\nsources:\n  acme: { client_guid: ${guid(0)}, ${tracked} }\n${Array.from({ length: more }, (_, i) => `  s${i + 1}: { client_guid: ${guid(i + 1)} }`).join('\n')}`,
      )
    const line = 'sources.yaml:6: defaults.streams names tracker_object, which needs TRACKING_BASE_URL'
    expect(of(2)).toEqual([`${line} (in s1, s2)`])
    expect(of(7)).toEqual([`${line} (in s1, s2, s3, s4, s5 and 2 more)`])
  })

  it('has names that are those of schemas for ever', () => {
    for (const name of ['acme', 'a', 'order', 'a23456789012345678901234'])
      expect(whyNotNamed(name)).toBeNull()
    for (const name of ['Acme', '1a', 'a-b', 'pg_x', 'fleet', 'x_past', 'a2345678901234567890123456'])
      expect(whyNotNamed(name)).not.toBeNull()
  })
})
