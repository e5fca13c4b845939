// `npm run picture [seconds] [chromium]`: takes the picture of the README from the console of a demo that has run for so long.

import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const checkout = fileURLToPath(new URL('..', import.meta.url))
const target = join(checkout, 'docs/console.png')
const size = { width: 1280, height: 800 }
const [seconds = '240', executablePath = '/usr/bin/chromium'] = process.argv.slice(2)
const runsForMs = Number(seconds) * 1000

const directory = await mkdtemp(join(tmpdir(), 'tidemark-picture-'))
const demo = spawn(process.execPath, [join(checkout, 'bin/tidemark.js'), 'demo', '--port', '0'], {
  cwd: directory,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = new Promise((resolve) => demo.once('exit', resolve))
try {
  const url = await statusPage()
  process.stdout.write(`The demo runs at ${url}; the picture is taken in ${runsForMs / 1000} s.\n`)
  await new Promise((resolve) => setTimeout(resolve, runsForMs))
  await takePicture(url)
  process.stdout.write(`wrote ${target}\n`)
} finally {
  demo.kill('SIGINT')
  await ended
  await rm(directory, { recursive: true, force: true })
}

async function statusPage(): Promise<string> {
  for await (const line of createInterface({ input: demo.stdout })) {
    const [url] = /http:\/\/127\.0\.0\.1:\d+\//.exec(line) ?? []
    if (url === undefined) continue
    // What it goes on to say has to be read, or it would wait.
    demo.stdout.resume()
    return url
  }
  throw new Error('the demo ended before it named its console')
}

async function takePicture(url: string): Promise<void> {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
  try {
    const page = await browser.newPage({ viewport: size, colorScheme: 'light', reducedMotion: 'reduce' })
    await page.goto(url)
    await page.getByText('live', { exact: true }).waitFor()
    await page.screenshot({ path: target })
  } finally {
    await browser.close()
  }
}
