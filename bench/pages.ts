// How long each page takes on a mirror of a million rows and 100,000 runs: until the worker has answered, and until Chromium paints it,
// beside a page that asks the database for nothing. `npm run bench -- pages [rows]`

import { setTimeout as wait } from 'node:timers/promises'
import { type BrowserContext, chromium } from 'playwright-core'
import { loadConfig } from '../src/config/load.ts'
import { type Simulator, startSimulator } from '../src/simulator/simulator.ts'
import type { Database } from '../src/store/server/connect.ts'
import { serve } from '../src/worker/serve.ts'
import { fillMirror } from './big-mirror.ts'
import { benchLog, openBenchDatabase } from './postgres.ts'
import { median } from './processes.ts'
import { loadOfMachine } from './report.ts'

const executablePath = '/usr/bin/chromium'
const runs = 100_000
const times = 7
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

/** As a table in Markdown. */
export async function benchPages(rows: number, say: (what: string) => void): Promise<string> {
  const database = await openBenchDatabase()
  await using simulator = await startSimulator({ assignments: 20, notes: 20 })
  const worker = await serve({ config: configOf(database, simulator), log: benchLog })
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
  const lines = [
    '| page | answered in ms | painted in ms | a trivial page then | KB |',
    '|---|---:|---:|---:|---:|',
  ]
  try {
    await worker.live
    await untilRead(database)
    say(`writing ${rows} rows and ${runs} runs`)
    await fillMirror(database.pool, { rows, runs })
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
    for (const path of paths) {
      const here = await measure(context, worker.url + path)
      // Beside it each time: what else the machine does changes by the second.
      const beside = await measure(context, worker.url + trivial)
      const cells = [here.answerMs, here.paintMs, beside.paintMs, here.kilobytes].map((one) => one.toFixed(0))
      lines.push(`| ${path} | ${cells.join(' | ')} |`)
      say(lines.at(-1) ?? '')
    }
    return `${lines.join('\n')}\n\n${loadOfMachine(1)}`
  } finally {
    await browser.close()
    await worker.stop()
    await database.close()
  }
}

const configOf = ({ url }: Database, simulator: Simulator) =>
  loadConfig({
    DATABASE_URL: url,
    ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
    AUTH_URL: simulator.authUrl,
    CLIENT_GUID: simulator.credentials.clientGuid,
    SUBJECT_ID: simulator.credentials.subjectId,
    API_KEY: simulator.credentials.apiKey,
    STREAMS: 'assignment,assignment_note',
    // Only the pages work while they are measured.
    SCHEDULE_ASSIGNMENT: '1d',
    SCHEDULE_ASSIGNMENT_NOTE: '1d',
    SCHEDULE_DELETIONS: '1d',
    SCHEDULE_LOOKBACK: '1d',
    HTTP_PORT: '0',
    CONTRACT: 'off',
    ADMIN_TOKEN: 'a-token-of-the-bench',
  })

async function untilRead({ pool }: Database): Promise<void> {
  const isRead = `select count(*)::int as streams from tidemark.stream where first_read_through_at is not null`
  while ((await pool.query(isRead)).rows[0]?.streams < 2) await wait(200)
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
