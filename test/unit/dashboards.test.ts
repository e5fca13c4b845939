// The dashboard and the alerts ask only for what the worker exports: each metric, label and value of a label that there is.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { exportedMetrics } from '../../scripts/reference/metrics.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { isNews, problemKinds, runbookOf } from '../../src/problems/stream-problems.ts'
import { outcomes } from '../../src/web/metrics.ts'

const textOf = (name: string) => readFileSync(new URL(`../../deploy/${name}`, import.meta.url), 'utf8')

type Panel = { title: string; description: string; targets: { expr: string; legendFormat: string }[] }
const dashboard: { panels: Panel[] } = JSON.parse(textOf('grafana/tidemark.json'))
const rules = textOf('prometheus/alerts.yml')

/** Labels by the name of each series. */
const series: ReadonlyMap<string, readonly string[]> = new Map(
  exportedMetrics().flatMap(({ name, kind, labels }) =>
    kind === 'Histogram'
      ? ['_bucket', '_sum', '_count'].map((suffix) => [`${name}${suffix}`, [...labels, 'le']] as const)
      : [[name, labels] as const],
  ),
)

/** Values of labels that are known beforehand. */
const values: Readonly<Record<string, readonly string[]>> = {
  kind: problemKinds,
  outcome: outcomes,
  announced: ['true', 'false'],
  stream: ['assignment', 'assignment_note'],
  part: ['database', 'queue', 'alerts'],
}

function expectKnown(expr: string): void {
  const used = [...expr.matchAll(/\b(tidemark_\w+)(?:\{([^}]*)\})?/g)]
  expect(used, `no metric in ${expr}`).not.toHaveLength(0)
  const labels = used.flatMap(([, name = '']) => {
    const known = series.get(name)
    expect(known, `${name} is not exported, in ${expr}`).toBeDefined()
    return known ?? []
  })
  for (const [, name = '', matchers = ''] of used)
    for (const [, label = '', wanted = ''] of matchers.matchAll(/(\w+)\s*(?:=~?|!~)\s*"([^"]*)"/g)) {
      expect(series.get(name), `${name} has no label ${label}`).toContain(label)
      for (const value of wanted.split('|')) expect(values[label], `${label}="${value}"`).toContain(value)
    }
  for (const [, list = ''] of expr.matchAll(/\b(?:by|on)\s*\(([^)]*)\)/g))
    for (const label of list.split(',')) expect(labels, `a label in ${expr}`).toContain(label.trim())
}

describe('the dashboard', () => {
  it('asks for metrics and labels that there are', () => {
    const targets = dashboard.panels.flatMap((panel) => panel.targets)
    expect(targets.length).toBeGreaterThan(20)
    for (const { expr, legendFormat } of targets) {
      expectKnown(expr)
      const grouped = [...expr.matchAll(/\bby\s*\(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/,\s*/))
      for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
        expect(grouped.length > 0 ? grouped : ['instance'], `${legendFormat} of ${expr}`).toContain(label)
    }
  })

  it('says of each panel what it shows', () => {
    for (const { title, description } of dashboard.panels) expect(description, title).toMatch(/\.$/)
  })
})

describe('the manual', () => {
  it('tells of every metric, but for those of the process', () => {
    const page = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
    const names = [...series.keys()].filter((name) => !/^tidemark_(process|nodejs)_|_(sum|count)$/.test(name))
    expect(names.length).toBeGreaterThan(25)
    expect(names.filter((name) => !page.includes(`\`${name.replace(/_bucket$/, '')}`))).toEqual([])
  })
})

describe('the alerts', () => {
  const exprs = [...rules.matchAll(/^ {8}expr: (.+)$/gm)].map(([, expr = '']) => expr)

  it('ask for metrics and labels that there are', () => {
    expect(exprs).toHaveLength([...rules.matchAll(/- alert: /g)].length)
    for (const expr of exprs) expectKnown(expr)
  })

  it('name the runbook page of a problem', () => {
    const runbooks = [...rules.matchAll(/^ {10}runbook: (.+)$/gm)].map(([, path]) => path)
    expect(runbooks.length).toBeGreaterThan(8)
    // One rule of several kinds leads to the list of them.
    const known = [...problemKinds.map(runbookOf), 'docs/operations/README.md']
    for (const path of runbooks) expect(known).toContain(path)
  })

  it('tell of each kind of problem that lasts', () => {
    const isTold = (kind: string) =>
      rules.includes(`runbook: ${runbookOf(kind)}\n`) ||
      exprs.some((expr) => RegExp(`["|]${kind}["|]`).test(expr))
    expect(problemKinds.filter((kind) => !isNews(kind) && !isTold(kind))).toEqual([])
  })

  it('lead to the page of a kind only where they tell of no other', () => {
    const mixed = [...rules.matchAll(/kind=~"([^"]+)".*?runbook: (\S+)/gs)]
    expect(mixed.length).toBeGreaterThan(0)
    for (const [, kinds = '', path] of mixed)
      if (kinds.split('|').some((kind) => !isNews(kind))) expect(path).toBe('docs/operations/README.md')
  })

  it('name commands that there are', () => {
    const named = [...rules.matchAll(/`tidemark (\w+)/g)].map(([, verb]) => verb)
    expect(named).toContain('probe')
    expect(named.filter((verb = '') => !(verb in verbs))).toEqual([])
  })

  const hasPromtool = spawnSync('promtool', ['--version']).status === 0
  it.skipIf(!hasPromtool)('are rules to promtool', () => {
    const path = new URL('../../deploy/prometheus/alerts.yml', import.meta.url).pathname
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', path], { encoding: 'utf8' })
    expect(`${stdout}${stderr}`).toContain('SUCCESS')
    expect(status).toBe(0)
  })
})
