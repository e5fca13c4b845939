// Changing a record of the recorded service by hand: its PUT replaces everything.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { environmentFor } from '../support/environment.ts'
import { callVerb } from '../support/verbs.ts'

let simulator: Simulator
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-merge-'))
  simulator = await startSimulator({ look: 'recorded', assignments: 5, notes: 3 })
  simulator.requests.start()
})
afterAll(async () => {
  await simulator.close()
  await rm(folder, { recursive: true })
})

async function put(path: string, body: string, ...words: string[]) {
  const file = join(folder, 'body.json')
  await writeFile(file, body)
  const called = await callVerb(
    ['api', 'PUT', path, '--body', file, ...words],
    environmentFor(simulator, null, { LOG_LEVEL: 'warn' }),
  )
  return { ...called, json: called.stdout === '' ? null : JSON.parse(called.stdout) }
}
const record = (id = 3) => simulator.source.record('assignment', id)
const puts = () => simulator.requests.entries.filter(({ method }) => method === 'PUT').length

describe('a record that is changed by hand', () => {
  beforeEach(() =>
    simulator.source.change('assignment', 3, { AssignmentName: 'Roof', City: 'Oslo', Price: 12.5 }),
  )

  it('keeps what was not given with --merge, to the last digit (P4)', async () => {
    const before = record()
    expect(await put('/api/Assignment', '{"assignmentId":3,"CITY":"Bergen"}', '--merge')).toMatchObject({
      code: 0,
      stdout: '',
    })
    const { sysRowVersion: _, sysUpdatedDateUTC: __, sysUpdatedBy: ___, ...after } = record() ?? {}
    const { sysRowVersion: ____, sysUpdatedDateUTC: _____, sysUpdatedBy: ______, ...was } = before ?? {}
    expect(after).toEqual({ ...was, city: 'Bergen' })
  })

  it('that was deleted stays deleted with --merge', async () => {
    simulator.source.remove('assignment', 4, 'soft')
    expect((await put('/api/Assignment', '{"assignmentId":4,"city":"Bergen"}', '--merge')).code).toBe(0)
    expect(record(4)).toMatchObject({ city: 'Bergen', sysDeleted: true })
  })

  it('shows what would change with --dry-run, with --merge and without, and writes nothing', async () => {
    const before = puts()
    const body = '{"assignmentId":3,"city":"Bergen"}'
    const merged = await put('/api/Assignment', body, '--merge', '--dry-run')
    expect(merged.json).toEqual({
      would: 'PUT /api/Assignment',
      changes: { city: { before: 'Oslo', after: 'Bergen' } },
    })
    const whole = await put('/api/Assignment', body, '--dry-run')
    expect(whole.json.changes).toMatchObject({
      assignmentName: { before: 'Roof', after: null },
      price: { before: 12.5, after: null },
      sysDeleted: { before: false, after: null },
    })
    const note = await put(
      '/api/AssignmentNote',
      '{"assignmentNoteId":1,"noteText":"x"}',
      '--merge',
      '--dry-run',
    )
    expect(Object.keys(note.json.changes)).toEqual(['noteText'])
    expect(puts()).toBe(before)
    expect(record()).toMatchObject({ city: 'Oslo' })
  })

  it('is not written when it is another version by now', async () => {
    const before = puts()
    const stale = await put(
      '/api/Assignment',
      '{"assignmentId":3,"city":"Bergen","sysRowVersion":5}',
      '--merge',
    )
    expect(String(stale.error)).toMatch(
      /The record has version \d+ by now, and the body was made from version 5/,
    )
    let reads = 0
    const stop = simulator.onRequest(({ path }) => {
      // Between the two looks.
      if (path.endsWith('/Id/3') && ++reads === 2)
        simulator.source.change('assignment', 3, { City: 'Stavanger' })
    })
    const meanwhile = await put('/api/Assignment', '{"assignmentId":3,"city":"Bergen"}', '--merge')
    stop()
    expect(String(meanwhile.error)).toContain('was changed while this change was made')
    expect(puts()).toBe(before)
    expect(record()).toMatchObject({ city: 'Stavanger' })
  })

  it('is warned of when everything else would be emptied, and has to be named', async () => {
    const plain = await put('/api/AssignmentNote', '{"assignmentNoteId":2,"noteText":"x"}')
    expect(plain.logged).toContain('This PUT replaces the whole record')
    expect(String((await put('/api/Assignment', '{"city":"Bergen"}', '--merge')).error)).toContain(
      'does not say which record it is about. It needs assignmentId or assignmentIdext',
    )
    const { error } = await callVerb(
      ['api', 'GET', '/api/Assignment', '--merge'],
      environmentFor(simulator, null, {}),
    )
    expect(String(error)).toContain('--merge is for a PUT that replaces a record')
  })
})
