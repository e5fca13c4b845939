// Keeps the state of the simulated upstream when a demo ends, beside the files of its Postgres, so that the next demo can go on with both.
// The state is removed while a demo runs: a demo that is killed must not leave an upstream that is older than its mirror.

import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { deserialize, serialize } from 'node:v8'
import type { Simulator } from '../simulator/simulator.ts'
import type { Backup } from '../simulator/source.ts'
import { UsageError } from '../util/errors.ts'
import { count } from '../util/text.ts'
import { openQuestions } from './ask.ts'
import type { Call } from './command.ts'
import { demoDirectory } from './running-demo.ts'

export type DemoState = { readonly endedAt: Date; readonly backup: Backup }

const file = () => resolve(demoDirectory, 'upstream.bin')
/** The version of the file's format. A file of another version is not read. */
const format = 1

export function keepState({ source }: Pick<Simulator, 'source'>): void {
  const { version, rows } = source.takeBackup()
  // Without the cached bytes of rows, which can be made again.
  const plain = [...rows].map(([name, all]) => [name, all.map((row) => ({ ...row, cached: null }))])
  writeFileSync(file(), serialize({ format, endedAt: new Date(), version, rows: plain }), { mode: 0o600 })
}

/** With which receivers of alerts are kept that somebody sets up in the console: a demo that goes on can use them still. */
export function alertKeyFile(): string {
  const key = resolve(demoDirectory, 'alert-secrets-key')
  if (!existsSync(key)) writeFileSync(key, randomBytes(32).toString('hex'), { mode: 0o600 })
  return key
}

export const forgetState = (): void => rmSync(file(), { force: true })

/** Null where no demo ended, or what it left cannot be read any more. */
function readState(): DemoState | null {
  try {
    const kept = deserialize(readFileSync(file()))
    if (kept.format !== format) return null
    return { endedAt: kept.endedAt, backup: { version: kept.version, rows: new Map(kept.rows) } }
  } catch {
    return null
  }
}

/** The state to go on with; null: the demo begins anew. It does if the person gave no option and cannot be asked. */
export async function chooseState({
  values,
  stdout,
  signal,
}: Pick<Call, 'values' | 'stdout' | 'signal'>): Promise<DemoState | null> {
  const [goesOn, isNew] = [values.continue === true, values.new === true]
  if (goesOn && isNew) throw new UsageError('Use either `--continue` or `--new`, not both.')
  if (isNew) return null
  const state = readState()
  if (goesOn) {
    if (values.assignments !== undefined)
      throw new UsageError(
        '`--assignments` is for a new demo; a continued demo keeps the assignments it had.',
      )
    if (state === null)
      throw new UsageError(
        `There is no demo to continue in ${resolve(demoDirectory)}: none ended there, or it was killed.`,
      )
    return state
  }
  if (state === null || values.assignments !== undefined) return null
  if (stdout.isTTY && process.stdin.isTTY) return (await wantsIt(state, { stdout, signal })) ? state : null
  stdout.say(`${inWords(state)} This one starts anew; --continue would continue the earlier one.`)
  return null
}

async function wantsIt(state: DemoState, { stdout, signal }: Pick<Call, 'stdout' | 'signal'>) {
  const questions = openQuestions(stdout, signal)
  try {
    stdout.say(inWords(state))
    const answer = await questions.ask({ text: 'Continue it?', known: 'yes; no starts a new one' })
    return !/^n/i.test(answer)
  } finally {
    questions.close()
  }
}

const inWords = ({ endedAt, backup }: DemoState): string =>
  `A demo with ${count(backup.rows.get('assignment')?.length ?? 0)} work orders ended here at ${endedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC.`
