// An upstream that asks to be left alone for years: the worker leaves it alone, and a person is told (P10, P18).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { callVerb } from '../support/verbs.ts'
import { startTestWorker } from '../support/worker.ts'

const variables = { STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1s' }

describe('an upstream that asks for no requests for years', () => {
  const database = createTestDatabase()

  it('P10 P18: is shown as what needs a person, with the date that it named, and is asked once', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    simulator.requests.start()
    simulator.faults.add({ kind: 429, retryAfterSeconds: 999_999_999 })
    const worker = await startTestWorker(simulator, database, variables)
    try {
      const isTold = () => worker.metric('tidemark_problems{kind="told_to_wait"}')
      await expect.poll(isTold).toBe(1)
      const { stdout } = await callVerb(['status'], environmentFor(simulator, database, variables))
      expect(stdout).toMatch(/asks to be left alone for longer than an hour.*no requests before 20[5-9]\d-/s)
      expect(stdout).toMatch(/needs? you/)
      expect(stdout).not.toContain('heal')
      const asked = simulator.requests.entries.filter(({ path }) => path.includes('/api/Assignment'))
      expect(asked).toHaveLength(1)
    } finally {
      await worker.stop()
    }
  })
})
