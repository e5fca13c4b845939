// The story of one row, as the program tells it.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { runTidemark } from '../support/program.ts'

describe.skipIf(!hasPostgres)('explain', () => {
  const database = createTestDatabase()
  it('tells what the mirror holds, the run that wrote it, and what the upstream says now', async () => {
    await using simulator = await startSimulator({ assignments: 10, firstRowVersion: 9_007_199_254_740_993n })
    const environment = environmentFor(simulator, database)
    await runTidemark(['sync', 'assignment'], environment)
    const explained = async (key: string) =>
      JSON.parse((await runTidemark(['explain', 'assignment', key, '--json'], environment)).stdout)
    const same = await explained('3')
    expect(same).toMatchObject({
      stream: 'assignment',
      key: '3',
      mirror: { deleted_at: null, runs: [{ kind: 'incremental' }] },
      upstream: { says: 'found', equal: true, different: [] },
    })
    simulator.source.change('assignment', 3, { Subject: 'changed' })
    simulator.source.remove('assignment', 4, 'hard')
    const [changed, gone, never, text] = await Promise.all([
      explained('3'),
      explained('4'),
      explained('999'),
      runTidemark(['explain', 'assignment', '3'], environment),
    ])
    expect(changed.upstream).toMatchObject({ says: 'found', equal: false })
    expect(changed.upstream.different).toContain('subject')
    expect(gone).toMatchObject({ mirror: { deleted_at: null }, upstream: { says: 'gone' } })
    expect(never).toMatchObject({ mirror: null, upstream: { says: 'gone' } })
    expect(text.code).toBe(0)
    expect(text.stdout).toMatch(/last changed .*by run \d+ \(incremental\)/)
    // Beyond what a JavaScript number holds (P4).
    const { rows } = await database.pool.query(
      'select row_version from mirror.assignment where assignment_id = 3',
    )
    expect(text.stdout).toContain(`${rows[0].row_version}`)
  })

  it('compares times in the zones of their fields (P4)', async () => {
    await using simulator = await startSimulator({ look: 'recorded', assignments: 3, notes: 3 })
    const environment = {
      ...environmentFor(simulator, database),
      FIELD_TIMEZONES: 'assignment_note.noteDate=America/New_York',
    }
    await runTidemark(['sync', 'assignment_note'], environment)
    const [key] = simulator.source.ids('assignment_note')
    const { stdout } = await runTidemark(['explain', 'assignment_note', `${key}`, '--json'], environment)
    expect(JSON.parse(stdout).upstream).toMatchObject({ says: 'found', equal: true, different: [] })
  })
})
