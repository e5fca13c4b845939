// The built program says and does what the sources do: it finds each file that they find. All other tests of this folder run it as well.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, it } from 'vitest'
import { buildProgram } from '../../scripts/build.ts'
import { packagesIn } from '../../scripts/bundled-packages.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { checkout, listening, runTidemark, startTidemark, statusOf } from '../support/program.ts'

describe('the built program', () => {
  it('says what the sources say', async () => {
    for (const words of [['--version'], ['config'], ['nonsense']]) {
      const [said, saidBySources] = await Promise.all([
        runTidemark(words, {}),
        runTidemark(words, {}, checkout),
      ])
      expect(said).toEqual(saidBySources)
    }
  })

  it('has only packages in it whose licences allow that', async () => {
    const inputs = await buildProgram(join(inject('scratch'), 'for-its-licences'))
    const names = packagesIn(checkout, inputs).map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['bullmq', 'pg', 'zod']))
  })
})

describe.skipIf(!hasPostgres)('the built worker', () => {
  const database = createTestDatabase({ isMigrated: false })
  it('makes the tables, reads the simulator in the same build, and shows its pages', async () => {
    const simulator = startTidemark(['simulate', '--port', '0', '--assignments', '20'], {})
    await expect.poll(() => simulator.stdout()).toContain('SOURCE_TIMEZONE=')
    const settings = Object.fromEntries(
      simulator
        .stdout()
        .matchAll(/^([A-Z_]+)=(.+)$/gm)
        .map(([, ...pair]) => pair),
    )
    const worker = startTidemark(['serve'], { ...settings, DATABASE_URL: database.url, HTTP_PORT: '0' })
    const url = await listening(worker)
    await expect.poll(() => statusOf(`${url}/readyz`)).toBe(200)
    const isThere = `select where to_regclass('bi.assignment') is not null`
    await expect.poll(async () => (await database.pool.query(isThere)).rowCount).toBe(1)
    const rows = async () => (await database.pool.query('select from bi.assignment')).rowCount
    await expect.poll(rows).toBe(20)
    const page = await (await fetch(url)).text()
    const [, style = ''] = /href="(\/assets\/page\.css[^"]*)"/.exec(page) ?? []
    const css = await (await fetch(new URL(style, url))).text()
    expect(css).toBe(readFileSync(join(checkout, 'src/web/assets/page.css'), 'utf8'))
    for (const { child } of [worker, simulator]) child.kill('SIGTERM')
    expect([(await worker.ended).code, (await simulator.ended).code]).toEqual([0, 0])
  })
})
