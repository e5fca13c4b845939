// Questions to a person, one line each. On a terminal a secret is not shown while it is typed; elsewhere lines are read as they come.

import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { UsageError } from '../util/errors.ts'
import { Interrupted } from './exit.ts'
import type { Output } from './output.ts'

export type Question = {
  readonly text: string
  /** The answer if nothing is typed. */
  readonly known?: string | null
  readonly isSecret?: boolean
}
export type Questions = {
  /** Without blanks around it; empty when nothing was typed and nothing is known. */
  ask(question: Question): Promise<string>
  close(): void
}

const nameWidth = 24

export function openQuestions(terminal: Output, signal: AbortSignal): Questions {
  const { stdin } = process
  const isTTY = stdin.isTTY === true
  let isHidden = false
  const echo = new Writable({
    write(chunk, _encoding, done) {
      if (!isHidden) terminal.write(String(chunk))
      done()
    },
  })
  const lines = createInterface({ input: stdin, output: echo, terminal: isTTY })
  // From now on, so that lines that come before their question wait for it.
  const typed = lines[Symbol.asyncIterator]()
  const { promise: stopped, reject } = Promise.withResolvers<never>()
  stopped.catch(() => {})
  const stop = () => reject(new Interrupted('Interrupted. Nothing was written.'))
  // While a line is typed, Ctrl-C is a key like others, and sends no signal.
  lines.on('SIGINT', stop)
  signal.addEventListener('abort', stop)

  async function nextLine(): Promise<string> {
    const { value, done } = await Promise.race([typed.next(), stopped])
    if (!done) return value
    throw new UsageError('Standard input ended before all questions were answered. Nothing was written.')
  }

  return {
    async ask({ text, known = null, isSecret = false }) {
      const shown = known === null || known === '' ? '' : ` (${isSecret ? 'as it is' : known})`
      terminal.write(`? ${terminal.plain(`${text.padEnd(nameWidth)}${shown}`.trimEnd())}  `)
      isHidden = isSecret
      const line = (
        await nextLine().finally(() => {
          isHidden = false
        })
      ).trim()
      if (isSecret || !isTTY) terminal.write(`${isSecret && line !== '' ? terminal.plain('••••••••') : ''}\n`)
      return line === '' ? (known ?? '') : line
    },
    close: () => lines.close(),
  }
}
