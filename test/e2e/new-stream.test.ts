// A contributor adds streams: entries of `src/streams/catalog.ts`, and nothing else. In a copy of the checkout, so that all that follows from
// an entry can be looked for: switch, schedule, table, view, dictionary, freshness, page and metrics.

import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark, startTidemark } from '../support/program.ts'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'tidemark-new-stream-'))

/** Before all others, because nothing may depend on their order. */
const entries = `
  {
    name: 'depot',
    kind: 'list',
    service: 'assignment',
    list: 'listAssignmentObjects',
    lookup: null,
    keyFields: ['DepotId', 'AssignmentObjectId'],
    defaultSchedule: '1h',
  },
  {
    name: 'visit',
    kind: 'changes',
    service: 'assignment',
    changes: 'listChangedAssignmentNotes',
    list: 'listAssignmentNotes',
    lookup: 'getAssignmentNote',
    keyFields: ['AssignmentNoteId'],
    versionFields,
    defaultSchedule: '1h',
  },`

function addEntries(): void {
  for (const name of ['src', 'bin', 'migrations', 'package.json'])
    cpSync(join(checkout, name), join(copy, name), { recursive: true })
  symlinkSync(join(checkout, 'node_modules'), join(copy, 'node_modules'))
  const file = join(copy, 'src/streams/catalog.ts')
  const [before, after, ...more] = readFileSync(file, 'utf8').split('export const knownStreams = [')
  expect([after === undefined, more]).toEqual([false, []])
  writeFileSync(file, `${before}export const knownStreams = [${entries}${after}`)
}

const patience = { timeout: 40_000, interval: 100 }

describe.skipIf(!hasPostgres)('an entry more in the table of streams', () => {
  const database = createTestDatabase()
  afterAll(() => rmSync(copy, { recursive: true, force: true }))
  const rowsOf = async (sql: string) => (await database.pool.query(sql)).rows
  const countOf = async (view: string) =>
    (await rowsOf(`select count(*)::int as count from ${view}`))[0].count

  it('is all that it takes to mirror a list or a changes stream', async () => {
    addEntries()
    await using simulator = await startSimulator({ assignments: 5, notes: 30, objects: 12 })
    const environment = environmentFor(simulator, database, {
      STREAMS: 'depot,visit',
      SCHEDULE_DEPOT: '1s',
      SCHEDULE_VISIT: '1s',
      HTTP_PORT: '0',
      LOG_LEVEL: 'info',
    })
    const worker = startTidemark(['serve'], environment, copy)
    try {
      await expect.poll(() => countOf('bi.depot'), patience).toBe(12)
      await expect.poll(() => countOf('bi.visit'), patience).toBe(30)
      // An hour is what holds without the variables.
      simulator.source.insert('assignment_object')
      simulator.source.insert('assignment_note')
      await expect.poll(() => countOf('bi.depot'), patience).toBe(13)
      await expect.poll(() => countOf('bi.visit'), patience).toBe(31)

      // Told when a run ends, a moment after its rows are there.
      const freshness = () =>
        rowsOf(`select stream, read_through_time is not null as is_complete,
            read_through_version is not null as has_version
          from tidemark.freshness where stream in ('depot', 'visit') order by stream`)
      await expect.poll(freshness, patience).toEqual([
        { stream: 'depot', is_complete: true, has_version: false },
        { stream: 'visit', is_complete: true, has_version: true },
      ])
      const dictionary = await rowsOf(
        `select stream, column_type from tidemark.field
         where source_name in ('AssignmentObjectId', 'AssignmentNoteId') and stream in ('depot', 'visit') order by stream`,
      )
      expect(dictionary).toEqual([
        { stream: 'depot', column_type: 'bigint' },
        { stream: 'visit', column_type: 'bigint' },
      ])
      const url = /"url":"(http:[^"]+)"/.exec(worker.stderr())?.[1]
      const page = await (await fetch(`${url}/`)).text()
      const metrics = await (await fetch(`${url}/metrics`)).text()
      for (const stream of ['depot', 'visit']) {
        expect(page).toContain(`href="/streams/${stream}"`)
        expect(metrics).toContain(`tidemark_lag_seconds{stream="${stream}"}`)
      }
    } finally {
      worker.child.kill('SIGTERM')
      await worker.ended
    }

    const [wrong, schema, reconcile] = await Promise.all([
      runTidemark(['sync', 'depot'], { ...environment, SCHEDULE_DEPOT: 'at noon' }, copy),
      runTidemark(['schema', 'visit'], environment, copy),
      runTidemark(['reconcile', 'visit'], environment, copy),
    ])
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('SCHEDULE_DEPOT must be')])
    expect(schema.stdout).toContain('## bi.visit')
    expect(reconcile.stdout).toMatch(/^visit: done, 0 missed, 0 marked deleted, /)
  })
})
