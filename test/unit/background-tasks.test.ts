// Work that an operator asked for: waited for a moment, done once at a time, ended with the worker.

import { once } from 'node:events'
import { expect, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { openBackgroundTasks } from '../../src/operator/background-tasks.ts'

const open = () => openBackgroundTasks({ timeoutMs: 20, log: openLog({ level: 'silent' }) })

it('tells what came of a short one, and passes on why it failed', async () => {
  const tasks = open()
  expect(await tasks.run('reading', async () => 'all is read')).toBe('all is read')
  await expect(tasks.run('reading', () => Promise.reject(new Error('no answer')))).rejects.toThrow(
    'no answer',
  )
  expect(await tasks.run('reading', async () => 'again')).toBe('again')
})

it('does not wait for a long one, does not begin it twice, and ends it', async () => {
  const tasks = open()
  let isOver = false
  const long = async (signal: AbortSignal) => {
    await once(signal, 'abort')
    isOver = true
    return 'stopped between two pages'
  }
  expect(await tasks.run('a reconcile', long)).toBeNull()
  await expect(tasks.run('a reconcile', long)).rejects.toThrow(
    /^a reconcile is already running \(started \d\d:\d\d:\d\d UTC\)/,
  )
  await tasks.stop()
  expect(isOver).toBe(true)
})
