import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openLog } from '../../src/log.ts'
import { keepOverrides, lookAtDictionary, lookRegularly } from '../../src/worker/changed-settings.ts'

const quietLog = openLog({ level: 'fatal' })
beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('takes up a changed HISTORY, which the dictionary keeps, with the look that sees it', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  let [kept, known] = [0, 0]
  const overrides = {
    async read() {
      kept += 1
      return { asked: '', alerts: [], overrides: [] }
    },
    takeUp: () => (kept === 1 ? [''] : []),
  }
  keepOverrides(looks, { overrides }, { planNow: async () => {}, onTaken: () => lookAtDictionary(looks) })
  looks.add('the dictionary', () => {
    known = kept
  })
  await vi.advanceTimersByTimeAsync(4_000)
  expect([kept, known]).toEqual([1, 1])
  ending.abort()
})

it('plans when other runs are asked for, until that succeeds', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  const seen = ['', 'one', 'one', 'one', 'another', 'another']
  const plans: string[] = []
  let asked = ''
  const overrides = {
    async read() {
      asked = seen.shift() ?? asked
      return { asked, alerts: [], overrides: [] }
    },
    takeUp: () => [],
  }
  keepOverrides(
    looks,
    { overrides },
    {
      onTaken() {},
      async planNow() {
        plans.push(asked)
        if (plans.length === 1) throw new Error('the queue is away')
      },
    },
  )
  await vi.advanceTimersByTimeAsync(6 * 4_000)
  expect(plans).toEqual(['one', 'one', 'another'])
  ending.abort()
})

it('looks once more when it is asked to while it looks', async () => {
  const ending = new AbortController()
  const looks = lookRegularly({ log: quietLog, signal: ending.signal })
  let begun = 0
  let end = () => {}
  looks.add('files', async () => {
    begun += 1
    await new Promise<void>((resolve) => {
      end = resolve
    })
  })
  looks.now('files')
  looks.now('files')
  looks.now('files')
  expect(begun).toBe(1)
  end()
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toBe(2)
  end()
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toBe(2)
  ending.abort()
})
