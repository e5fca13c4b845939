// How long each page takes on a mirror of a million rows and 100,000 runs: until the worker has answered, and until Chromium paints it,
// beside a page that asks the database for nothing. `node bench/pages.ts [rows] [chromium]`

import { type BrowserContext, chromium } from 'playwright-core'
import { loadConfig } from '../src/config/load.ts'
import { startSimulator } from '../src/simulator/simulator.ts'
import { serve } from '../src/worker/serve.ts'
import { fillMirror } from './big-mirror.ts'
import { benchLog, openBenchDatabase } from './postgres.ts'
import { median } from './processes.ts'

const [rows = '1000000', executablePath = '/usr/bin/chromium'] = process.argv.slice(2)
const times = 7
const paintWithinMs = 200
const trivial = '/sign-in'
const paths = [
  ...[
    '/',
    '/problems',
    '/find',
    '/find?q=1500000',
    '/runs',
    '/runs?stream=assignment',
    '/runs?before=50000',
    '/runs/50000',
  ],
  ...[
    '',
    '/rows',
    '/rows?q=1500000',
    '/rows?changed=last+day',
    '/rows?field=city&value=zzz',
    '/runs',
    '/fields',
    '/checkpoints',
    '/settings',
    '/read',
  ].map((tab) => `/streams/assignment${tab}`),
  ...[
    '/records/assignment/1500000',
    '/upstream',
    '/upstream/contract',
    '/workers',
    '/queue',
    '/backfills',
    '/quarantine',
    '/dictionary',
    '/checkpoints',
    '/actions',
  ],
]

const database = await openBenchDatabase()
await using simulator = await startSimulator({ assignments: 20, notes: 20 })
const config = loadConfig({
  DATABASE_URL: database.url,
  ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
  AUTH_URL: simulator.authUrl,
  CLIENT_GUID: simulator.credentials.clientGuid,
  SUBJECT_ID: simulator.credentials.subjectId,
  API_KEY: simulator.credentials.apiKey,
  STREAMS: 'assignment,assignment_note',
  // Only the pages work while they are measured.
  ...{
    SCHEDULE_ASSIGNMENT: '1d',
    SCHEDULE_ASSIGNMENT_NOTE: '1d',
    SCHEDULE_DELETIONS: '1d',
    SCHEDULE_LOOKBACK: '1d',
  },
  ...{ HTTP_PORT: '0', CONTRACT: 'off', ADMIN_TOKEN: 'a-token-of-the-bench' },
})
const worker = await serve({ config, log: benchLog })
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
try {
  await worker.live
  const { pool } = database
  const isRead = `select count(*)::int as streams from tidemark.stream where first_read_through_at is not null`
  while ((await pool.query(isRead)).rows[0]?.streams < 2)
    await new Promise((resolve) => setTimeout(resolve, 200))
  process.stderr.write(`writing ${rows} rows\n`)
  await fillMirror(pool, { rows: Number(rows), runs: 100_000 })
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
  process.stdout.write(
    '| page | answered in ms | painted in ms | more than a trivial page | KB |\n|---|---:|---:|---:|---:|\n',
  )
  for (const path of paths) {
    const here = await measure(context, worker.url + path)
    // Beside it each time: what else the machine does changes by the second.
    const beside = await measure(context, worker.url + trivial)
    const mark =
      here.paintMs - beside.paintMs + Math.min(beside.paintMs, 60) > paintWithinMs ? ' **slow**' : ''
    process.stdout.write(
      `| ${path} | ${here.answerMs.toFixed(0)} | ${here.paintMs.toFixed(0)} | ${(here.paintMs - beside.paintMs).toFixed(0)}${mark} | ${here.kilobytes.toFixed(0)} |\n`,
    )
  }
} finally {
  await browser.close()
  await worker.stop()
  await database.close()
}

async function measure(context: BrowserContext, url: string) {
  const page = await context.newPage()
  const [paints, answers]: [number[], number[]] = [[], []]
  let kilobytes = 0
  for (let time = 0; time < times; time++) {
    const response = await page.goto(url, { waitUntil: 'load' })
    if (response?.status() !== 200) throw new Error(`${url} answered ${response?.status()}`)
    kilobytes = (await response.body()).length / 1_000
    const [paint, answer] = await page.evaluate<[number, number]>(`new Promise((resolve) => {
      const done = () => {
        const [first] = performance.getEntriesByName('first-contentful-paint')
        const [loaded] = performance.getEntriesByType('navigation')
        if (first) resolve([first.startTime, loaded.responseEnd])
        else requestAnimationFrame(done)
      }
      done()
    })`)
    paints.push(paint)
    answers.push(answer)
  }
  await page.close()
  return { paintMs: median(paints), answerMs: median(answers), kilobytes }
}
