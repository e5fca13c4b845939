// What the page of the demo says of a late commit: each way it can end, also when another writer comes first; and of the proof.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDemo } from '../../src/cli/demo-incidents.ts'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import { newOneTimeKey } from '../../src/web/demo.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

describe.skipIf(!hasPostgres)('the page of the demo', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator
  let context: SyncContext
  const reader = () => ({ ...context.contextOf(streamOf('assignment')), now: () => new Date(), signal })

  beforeEach(async () => {
    simulator = await startSimulator({ look: 'recorded', assignments: 30, notes: 10 })
    context = await openTestContext(database, simulator)
    await readIncremental(reader())
    await readIncremental({ ...reader(), ...context.contextOf(streamOf('assignment_note')) })
  })
  afterEach(async () => {
    await context[Symbol.asyncDispose]()
    await simulator.close()
  })

  async function breakIt() {
    const demo = openDemo({
      ...{ simulator, context, signal, log: quietLog },
      requestRun: async () => {},
      key: newOneTimeKey(),
    })
    const id = Number(/\d+/.exec((await demo.press('late-commit')) ?? '')?.[0])
    return { id, words: async () => (await demo.show()).cards[0]?.words }
  }

  it('says of a late commit that it is hidden, and then caught by the look-back', async () => {
    const { words } = await breakIt()
    expect(await words()).toBe('hidden')
    await readIncremental(reader())
    simulator.source.commitLate()
    expect(await words()).toBe('hidden')
    await readLookback(reader())
    expect(await words()).toBe('caught')
  })

  it('P18: proves what it says, also of records that cannot be rows, and of which moment', async () => {
    const demo = openDemo({
      ...{ simulator, context, signal, log: quietLog },
      requestRun: async () => {},
      key: newOneTimeKey(),
    })
    await demo.press('bad-record')
    await readIncremental(reader())
    await demo.press('prove')
    const proof = async () => (await demo.show()).cards.find(({ title }) => title === 'Proof')
    await expect
      .poll(proof)
      .toMatchObject({ tone: 'ok', words: expect.stringMatching(/^no difference at \d\d:.* UTC$/) })
    const steps = ((await proof())?.steps ?? []).map(({ text }) => text)
    expect(steps.at(-1)).toBe('1 record cannot be a row and is in the quarantine')
    await demo.press('delete-many')
    expect(await proof()).toMatchObject({
      tone: 'todo',
      words: expect.stringContaining('before the last thing'),
    })
  })

  it.each([
    ['changed', (id: number) => void simulator.source.change('assignment', id)],
    ['deleted', (id: number) => simulator.source.remove('assignment', id, 'hard')],
  ])(
    'says of a late commit that nothing is left to look back for when the record was %s meanwhile',
    async (_, happen) => {
      const { id, words } = await breakIt()
      happen(id)
      await readIncremental(reader())
      await readLookback(reader())
      expect(await words()).toBe('changed again')
    },
  )
})
