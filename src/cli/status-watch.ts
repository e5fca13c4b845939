// `tidemark status --watch`: the same, drawn anew every two seconds on a screen of its own, until q or Ctrl-C.

import { setTimeout as wait } from 'node:timers/promises'
import { messageOf } from '../util/errors.ts'
import type { Call } from './command.ts'
import { type ShownStatus, statusLines } from './status-table.ts'

const everyMs = 2_000
const enter = '\x1b[?1049h\x1b[?25l'
const leave = '\x1b[?25h\x1b[?1049l'

export async function watchStatus(options: {
  readonly call: Pick<Call, 'signal' | 'stdout'>
  readonly gather: () => Promise<ShownStatus>
}): Promise<void> {
  const { stdout, signal } = options.call
  const ending = new AbortController()
  const ended = AbortSignal.any([signal, ending.signal])
  const stopListening = onQuit(() => ending.abort())
  stdout.write(enter)
  // Restores the terminal, whatever ends the program.
  const restore = () => stdout.write(leave)
  process.once('exit', restore)
  try {
    for (let last: ShownStatus | null = null; !ended.aborted; ) {
      const found: ShownStatus | null = await options.gather().catch((error) => {
        stdout.write(`\x1b[H${stdout.plain(`not live: ${messageOf(error)}`)}\x1b[K`)
        return null
      })
      if (ended.aborted) break
      if (found) stdout.write(frameOf(found, last, stdout))
      last = found ?? last
      await wait(everyMs, undefined, { signal: ended }).catch(() => {})
    }
  } finally {
    stopListening()
    process.off('exit', restore)
    restore()
  }
}

/**
 * Writes each line over the old one, so that nothing flickers. A line is cleared before it is written: clearing behind a line that is as
 * wide as the terminal would take its last letter.
 */
function frameOf(found: ShownStatus, last: ShownStatus | null, out: Call['stdout']): string {
  const lines = [
    ...statusLines(found, out, last),
    '',
    out.style('dim', out.plain('live · changes are bold · q ends')),
  ]
  return `\x1b[H${lines.map((line) => `\x1b[K${line}`).join('\r\n')}\x1b[J`
}

/** In raw mode Ctrl-C is a key like others. */
function onQuit(quit: () => void): () => void {
  const { stdin } = process
  if (!stdin.isTTY) return () => {}
  const hear = (keys: Buffer) => {
    if (['q', 'Q', '\u0003'].some((key) => keys.includes(key))) quit()
  }
  stdin.setRawMode(true)
  stdin.resume()
  stdin.on('data', hear)
  return () => {
    stdin.off('data', hear)
    stdin.setRawMode(false)
    stdin.pause()
  }
}
