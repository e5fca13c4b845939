// The manual tells of what there is: what is generated is current, and each command, link, setting, metric and runbook exists.

import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { generatedFiles } from '../../scripts/reference/files.ts'
import { exportedMetrics } from '../../scripts/reference/metrics.ts'
import type { Command } from '../../src/cli/command.ts'
import { findVerb, parseCall } from '../../src/cli/parse.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { variables } from '../../src/config/variables.ts'
import { problemKinds, runbookOf } from '../../src/problems/stream-problems.ts'
import { kinds, relatedStreams, knownStreams as streams } from '../../src/streams/catalog.ts'
import { baseOf } from '../../src/streams/names.ts'
import { anchorsOf, blocksOf, callsOf, checkout, inlineCode, pages, textOf } from '../support/manual.ts'

/** The changelog speaks of what was. */
const present = pages.filter(({ path }) => path !== 'CHANGELOG.md')
const fromPages = <Item>(pick: (page: (typeof pages)[number]) => readonly Item[]) =>
  present.flatMap((page) => pick(page).map((item) => [page.path, item] as const))

describe('what is generated', () => {
  let files: ReadonlyMap<string, string>
  beforeAll(async () => {
    files = await generatedFiles(checkout)
  })

  it('is as the code says it: otherwise run npm run docs', () => {
    const stale = [...files].filter(([path, text]) => {
      const file = new URL(path, checkout)
      return !existsSync(file) || readFileSync(file, 'utf8') !== text
    })
    expect(stale.map(([path]) => path)).toEqual([])
    expect(files.size).toBeGreaterThan(6)
  })

  it('holds the states of the reader and the faults of every promise', () => {
    expect(textOf('docs/how-it-works/reading.md')).toContain('  proof --> next_page: sorting proven')
    expect(textOf('docs/how-it-works/proof.md')).toContain('| P10 | each idle poll has a line of its own |')
  })

  it('is all that stands in docs/reference', () => {
    const there = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/reference/'))
    expect(there.filter((path) => !files.has(path))).toEqual([])
  })
})

describe('the front door', () => {
  it('is short', () => {
    expect(Buffer.byteLength(textOf('README.md'))).toBeLessThanOrEqual(6_144)
  })

  it('leads to every page of the manual, in two steps', () => {
    const linked = (path: string) =>
      [...textOf(path).matchAll(/\]\(([^)#]+\.md)/g)].map(([, to = '']) =>
        new URL(to, new URL(path, checkout)).pathname.slice(checkout.pathname.length),
      )
    const reached = new Set(
      ['README.md', 'docs/README.md', 'docs/operations/README.md'].flatMap((path) => [path, ...linked(path)]),
    )
    expect(pages.map(({ path }) => path).filter((path) => !reached.has(path))).toEqual([])
  })
})

describe('links', () => {
  const links = pages.flatMap((page) =>
    [...page.text.matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, to = '']) => [page.path, to] as const),
  )

  it('lead to files that there are', () => {
    expect(links.length).toBeGreaterThan(100)
    const broken = links.filter(([path, to]) => {
      const [file = ''] = to.split('#')
      return file !== '' && !existsSync(new URL(file, new URL(path, checkout)))
    })
    expect(broken).toEqual([])
  })

  it('lead to each picture, and pictures are small', () => {
    const pictures = readdirSync(new URL('docs/pictures/', checkout)).map((name) => `docs/pictures/${name}`)
    const shown = new Set(
      links.map(([path, to]) =>
        new URL(to, new URL(path, checkout)).pathname.slice(checkout.pathname.length),
      ),
    )
    expect(pictures.filter((path) => !shown.has(path))).toEqual([])
    const large = [...pictures, 'docs/console.png'].filter(
      (path) => statSync(new URL(path, checkout)).size > 60_000,
    )
    expect(large).toEqual([])
  })

  it('lead to headings that there are', () => {
    const broken = links.filter(([path, to]) => {
      const [file = '', anchor] = to.split('#')
      if (anchor === undefined) return false
      const target =
        file === '' ? path : new URL(file, new URL(path, checkout)).pathname.slice(checkout.pathname.length)
      return !anchorsOf({ text: textOf(target) }).includes(anchor)
    })
    expect(broken).toEqual([])
  })
})

describe('commands', () => {
  const calls = fromPages(callsOf)
  const takesStream = new Set([
    'sync',
    'status',
    'checkpoints',
    'pause',
    'resume',
    'backfill',
    'rewind',
    'reconcile',
    'verify',
    'schema',
    'explain',
  ])
  let commands: ReadonlyMap<string, Command>
  beforeAll(async () => {
    commands = new Map(
      await Promise.all(Object.entries(verbs).map(async ([name, load]) => [name, await load()] as const)),
    )
  })
  const commandOf = (verb: string) => findVerb(Object.fromEntries(commands), verb)

  it('are verbs with options that there are, of streams that there are', () => {
    expect(calls.length).toBeGreaterThan(100)
    const names: readonly string[] = [...streams, ...relatedStreams].map(({ name }) => name)
    for (const [path, words] of calls) {
      const [verb = '', ...rest] = words
      if (verb.startsWith('<') || verb.startsWith('--')) continue
      const { positionals } = parseCall(commandOf(verb), rest)
      const [first = ''] = positionals
      const isPlaceholder = first === '' || /^[<[A-Z…]/.test(first)
      if (takesStream.has(verb) && !isPlaceholder)
        expect(names, `${path}: ${words.join(' ')}`).toContain(baseOf(first))
    }
  })

  it('use each verb at least once outside the reference', () => {
    const used = new Set(calls.flatMap(([path, [verb = '']]) => (path.includes('/reference/') ? [] : [verb])))
    expect(
      [...commands.keys()].filter((verb) => !used.has(verb) && !['serve', 'demo'].includes(verb)),
    ).toEqual([])
  })

  it('of npm are scripts that there are', () => {
    const { scripts }: { scripts: Record<string, string> } = JSON.parse(
      readFileSync(new URL('package.json', checkout), 'utf8'),
    )
    const used = present.flatMap(({ text }) =>
      [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name),
    )
    expect(used).toContain('demo')
    expect(used.filter((name) => !(name in scripts))).toEqual([])
  })
})

describe('names', () => {
  it('of metrics are those that a worker exports', () => {
    const known = exportedMetrics().map(({ name }) => name)
    const named = fromPages(({ text }) => [...text.matchAll(/\btidemark_[a-z]\w*/g)].map(([name]) => name))
    expect(named.length).toBeGreaterThan(30)
    const unknown = named.filter(
      // Roles in Postgres have such names too.
      ([, name]) => !known.includes(name) && !/^tidemark_(process_|nodejs_|owner$|worker$|bi$)/.test(name),
    )
    expect(unknown).toEqual([])
  })

  it('in capitals are settings, or listed here', () => {
    const others = [
      ...['NAME', 'TZ', 'CI', 'TEST_DATABASE_URL', 'TEST_REDIS_URL', 'POSTGRES_PASSWORD', 'POSTGRES_PORT'],
      ...['VERSION', 'REVISION', 'PGHOST', 'PGPORT', 'PGDATABASE', 'PGUSER', 'PGPASSWORD'],
      ...['SOAK_MINUTES', 'SOAK_BACKEND', 'SOAK_SEED', 'WORLDS', 'SEED', 'FRESHNESS_WORLDS'],
      ...['CARDS_WORLDS', 'CARDS_ASSIGNMENTS', 'CARDS_LENGTHS'],
      ...['COPY', 'HTTP', 'POST', 'UID', 'UTC', 'CET', 'NO_COLOR'],
    ]
    const known = new Set([...Object.keys(variables).map((name) => name.replace(/_FILE$/, '')), ...others])
    const isOther = (name: string) => /^(SCHEDULE|KEY|VERSION|VOLATILE)_|^UPSTREAM_|^P\d+$/.test(name)
    const named = fromPages((page) => [
      ...inlineCode(page).flatMap((code) => /^([A-Z][A-Z0-9_]+?)(?:_FILE)?(?:=.*)?$/.exec(code)?.[1] ?? []),
      ...blocksOf(page, 'sh').flatMap((block) =>
        [...block.matchAll(/\b([A-Z][A-Z0-9_]+)=/g)].map(([, name = '']) => name),
      ),
    ])
    expect(named.length).toBeGreaterThan(100)
    expect(named.filter(([, name]) => !known.has(name) && !isOther(name))).toEqual([])
  })
})

describe('the glossary', () => {
  it('has every kind of run', () => {
    const [, table = ''] = textOf('docs/how-it-works/glossary.md').split('## Kinds of run')
    expect(kinds.filter((kind) => !table.includes(`| \`${kind}\` |`))).toEqual([])
  })
})

describe('routes of the console', () => {
  const sources = globSync('src/web/**/*.ts', { cwd: fileURLToPath(checkout) })
    .map((path) => readFileSync(new URL(path, checkout), 'utf8'))
    .join('\n')
    .replaceAll(/\/:(?:name|stream|key|id)(?=['/])/g, '/:target')

  it('are those that the worker answers', () => {
    const told = inlineCode({ text: textOf('docs/guides/console.md') }).filter((code) =>
      /^\/[a-z]/.test(code),
    )
    expect(told.length).toBeGreaterThan(15)
    const asCoded = (route: string) =>
      `'${route.replaceAll(/<[^>]+>/g, route.startsWith('/hooks/') ? ':secret' : ':target')}'`
    expect(told.filter((route) => !sources.includes(asCoded(route)))).toEqual([])
  })
})

describe('runbooks', () => {
  it.each(problemKinds)('tell what %s means, what to check and what to do', (kind) => {
    const text = textOf(runbookOf(kind))
    expect(text).toMatch(new RegExp(`^# ${kind}: .+\n`))
    for (const heading of ['What it means', 'What to check', 'What to do'])
      expect(text).toContain(`**${heading}`)
  })

  it('are of kinds that there are', () => {
    const runbooks = new Set([
      'docs/operations/README.md',
      'docs/operations/refusals.md',
      ...problemKinds.map(runbookOf),
    ])
    const there = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/operations/'))
    expect(there.filter((path) => !runbooks.has(path))).toEqual([])
  })
})
