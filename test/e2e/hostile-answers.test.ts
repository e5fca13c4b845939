// A worker that may take 256 MB lives on whatever the upstream answers, and says what it refused (P10).

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { hostileBodies, startHostileServer } from '../support/hostile-answers.ts'

const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))
const megabyte = 1024 * 1024
const mostBytes = 256 * megabyte

/** A group of processes that the system kills when they take more. Null: this machine has no groups (v1), or lets nobody make one. */
function openMemoryGroup() {
  const path = `/sys/fs/cgroup/memory/tidemark-test-${process.pid}`
  try {
    mkdirSync(path)
    writeFileSync(`${path}/memory.limit_in_bytes`, String(mostBytes))
  } catch {
    return null
  }
  return {
    add: (pid: number | undefined) => writeFileSync(`${path}/cgroup.procs`, String(pid)),
    close: () => rmdirSync(path),
  }
}

/** The most that a process ever took, without the files of programs, which others share. */
function peakBytes(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kilobytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1])
  return (kilobytes('VmHWM') - kilobytes('RssFile')) * 1024
}

describe.skipIf(!hasPostgres || process.platform !== 'linux')('tidemark serve', () => {
  const database = createTestDatabase()

  it('lives on in 256 MB when all kinds of requests are answered with bodies that would fill any memory (P10)', {
    timeout: 400_000,
  }, async () => {
    await using simulator = await startSimulator({ assignments: 300, notes: 300 })
    await using hostile = await startHostileServer(simulator.assignmentUrl)
    hostile.answer([[/openapi/, hostileBodies.emptyObjects]])
    const child = spawn(program, ['serve'], {
      cwd: inject('scratch'),
      env: {
        HOME: process.env.HOME,
        PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
        ...environmentFor(simulator, database, {
          ASSIGNMENT_BASE_URL: `${hostile.url}${new URL(simulator.assignmentUrl).pathname}`,
          HTTP_PORT: '0',
          SCHEDULE_ASSIGNMENT: '1s',
          SCHEDULE_ASSIGNMENT_NOTE: '1s',
          SCHEDULE_ASSIGNMENT_OBJECT: '1s',
          SCHEDULE_DELETIONS: '2s',
          CONTRACT: `${hostile.url}/openapi.json`,
          LOG_LEVEL: 'warn',
        }),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const group = openMemoryGroup()
    group?.add(child.pid)
    const ended = once(child, 'exit')
    let logged = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      logged += text
    })
    const soon = { timeout: 120_000, interval: 200 }
    const countWhere = async (condition: string) => {
      const { rows } = await database.pool.query(
        `select count(*)::int as count from mirror.assignment where ${condition}`,
      )
      return rows[0]?.count
    }
    try {
      await expect.poll(() => countWhere('true').catch(() => 0), soon).toBe(300)
      expect(logged).toContain('it holds more than any description does')
      hostile.answer([
        [/Assignment\/neworchanged/, hostileBodies.gzipBomb],
        [/AssignmentNote\/neworchanged/, hostileBodies.emptyRecords],
        [/AssignmentObject/, hostileBodies.millionFields],
        [/Assignment\/Id\//, hostileBodies.endless],
      ])
      for (const id of [1, 2, 3]) simulator.source.change('assignment', id)
      for (const id of [298, 299, 300]) simulator.source.remove('assignment', id)
      for (const refusal of [
        /GET \S+\/Assignment\/neworchanged\/\d+: the answer is larger than 48 MB/,
        /GET \S+\/AssignmentNote\/neworchanged\/\d+: the answer holds more than 300,000 records/,
        /GET \S+\/AssignmentObject: the answer holds more than 100,000 fields in one record/,
        /GET \S+\/Assignment\/Id\/\d+: the answer is larger than 16 MB/,
      ]) {
        await expect.poll(() => `${logged}, ended with ${child.signalCode}`, soon).toMatch(refusal)
        const { rows } = await database.pool.query(`select error from tidemark.run where error is not null`)
        expect(rows.map(({ error }) => error)).toContainEqual(expect.stringMatching(refusal))
      }
      hostile.answer([])
      // It reads on as if nothing had been, with what it did not hear of meanwhile.
      await expect.poll(() => countWhere('_deleted_at is not null'), soon).toBe(3)
      expect(peakBytes(child.pid)).toBeLessThan(mostBytes)
      expect([child.exitCode, child.signalCode]).toEqual([null, null])
    } finally {
      child.kill()
      await ended
      group?.close()
    }
  })
})
