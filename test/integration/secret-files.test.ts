// Keys and tokens in files that change while a worker runs.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { openSecretFiles, takenLongerMs } from '../../src/config/secret-files.ts'
import { openLog } from '../../src/log.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

const directory = mkdtempSync(join(tmpdir(), 'tidemark-secrets-'))
function secretFile(name: string, text: string) {
  const path = join(directory, name)
  const write = (value: string) => writeFileSync(path, `${value}\n`)
  write(text)
  return { path, write }
}
const soon = { timeout: 60_000, interval: 200 }

describe.skipIf(!hasPostgres)('a worker whose secrets stand in files', () => {
  const database = createTestDatabase()

  it('takes up a key and a token without a restart', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const key = secretFile('key', 'not the key any more')
    const token = secretFile('token', 'the-first-token-of-operators')
    const worker = await startTestWorker(simulator, database, {
      ...{ API_KEY: undefined, API_KEY_FILE: key.path },
      ...{ ADMIN_TOKEN: undefined, ADMIN_TOKEN_FILE: token.path },
      SCHEDULE_ASSIGNMENT: '1s',
    })
    const askedWith = async (given: string) =>
      (await worker.post('/streams/assignment_note/pause', { authorization: `Bearer ${given}` })).status
    const logged = () => worker.logged().join('')
    try {
      expect(await askedWith('the-second-token-of-operators')).toBe(401)
      await expect.poll(logged, soon).toContain('refuses the sign-in of the assignment service')
      key.write(simulator.credentials.apiKey)
      token.write('the-second-token-of-operators')
      await expect.poll(logged, soon).toContain('ADMIN_TOKEN was taken up anew from its file.')
      // As before for ten minutes, by those who do not know the new one yet.
      for (const one of ['first', 'second'])
        expect([one, await askedWith(`the-${one}-token-of-operators`)]).toEqual([one, 200])
      const count = async () =>
        (await database.pool.query('select count(*)::int as rows from mirror.assignment')).rows[0].rows
      await expect.poll(() => count().catch(() => 0), soon).toBe(20)
      expect(logged()).toContain('API_KEY was taken up anew from its file.')
      expect(logged()).not.toContain('token-of-operators')
    } finally {
      await worker.stop()
    }
  })
})

describe('secrets in files', () => {
  const told: string[] = []
  const stream = new Writable({
    write(line, _encoding, done) {
      told.push(String(line))
      done()
    },
  })
  const log = openLog({ level: 'info', stream })

  it('go on as they were while their file cannot be used, which is told once', () => {
    const { path, write } = secretFile('viewers', 'a token for viewers')
    const secrets = openSecretFiles({ VIEWER_TOKEN_FILE: path })
    for (const unusable of ['', 'too short']) {
      told.length = 0
      write(unusable)
      for (let time = 0; time < 3; time++) secrets.look(log)
      expect(secrets.tokensOf('viewer')).toEqual(['a token for viewers'])
      expect(told.join('').match(/VIEWER_TOKEN.*goes on/g)).toHaveLength(1)
    }
    write('another one for viewers')
    secrets.look(log)
    expect(secrets.tokensOf('viewer')[0]).toBe('another one for viewers')
  })

  it('are taken for ten minutes longer, and not for ever', () => {
    let nowMs = 1_000_000
    const { path, write } = secretFile('operators', 'a token for operators')
    const secrets = openSecretFiles({ ADMIN_TOKEN_FILE: path }, () => nowMs)
    expect(secrets.tokensOf('admin')).toEqual(['a token for operators'])
    write('another one for operators')
    secrets.look(log)
    nowMs += takenLongerMs - 1
    expect(secrets.tokensOf('admin')).toEqual(['another one for operators', 'a token for operators'])
    nowMs += 1
    expect(secrets.tokensOf('admin')).toEqual(['another one for operators'])
    expect(secrets.tokensOf('viewer')).toEqual([])
  })
})
