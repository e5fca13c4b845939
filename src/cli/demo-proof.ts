// The proof of the demo: every record of the made-up upstream is compared with its row, value by value, and every living row has to be a
// record. Only the demo can look into its upstream like this.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { SyncContext } from '../context.ts'
import { parseJson } from '../json/parse.ts'
import type { Simulator } from '../simulator/simulator.ts'
import { readVersionField } from '../store/book/checkpoints.ts'
import { versionedBy } from '../streams/catalog.ts'
import { readRecords } from '../streams/record.ts'

export type Proof = {
  readonly at: Date
  readonly compared: number
  /** The first of them, in words. */
  readonly differences: readonly string[]
  readonly total: number
}

const compared = ['assignment', 'assignment_note'] as const
const pageSize = 1_000
const mostTold = 5
/** Two polls of the demo. */
const settleMs = 6_000

type Parts = { readonly simulator: Simulator; readonly context: SyncContext }

/** Compares twice, and counts what differs both times: a difference that is gone after the next polls was only a change on its way. */
export async function proveCopy(parts: Parts, signal: AbortSignal): Promise<Proof> {
  const first = await compareAll(parts)
  if (first.told.length === 0) return proofOf(first, first.told)
  await wait(settleMs, undefined, { signal })
  const second = await compareAll(parts)
  const before = new Set(first.told)
  return proofOf(
    second,
    second.told.filter((text) => before.has(text)),
  )
}

type Compared = { readonly at: Date; readonly records: number; readonly told: readonly string[] }

const proofOf = ({ at, records }: Compared, told: readonly string[]): Proof => ({
  at,
  compared: records,
  differences: told.slice(0, mostTold),
  total: told.length,
})

async function compareAll({ simulator, context }: Parts): Promise<Compared> {
  const at = new Date()
  const told: string[] = []
  let records = 0
  for (const name of compared) {
    const stream = context.streams.find((one) => one.name === name)
    if (stream?.kind !== 'changes') continue
    const { pool } = context.database
    const versioned = versionedBy(stream, await readVersionField(pool, name))
    const keys = new Set<string>()
    const texts = simulator.source.texts(name)
    for (let start = 0; start < texts.length; start += pageSize) {
      const parsed = texts.slice(start, start + pageSize).map((text) => parseJson(Buffer.from(text)))
      const page = readRecords(parsed, versioned.keyFields, versioned.versionFields)
      records += parsed.length
      for (const { key } of page.rows) keys.add(key)
      for (const { key, kind, columns } of await context.compareOnce(versioned, page))
        told.push(inWords(name, key, kind, columns))
    }
    told.push(...(await rowsWithout(pool, name, stream.keyFields[0] ?? '', keys)))
  }
  return { at, records, told }
}

function inWords(stream: string, key: string, kind: string, columns: readonly string[]): string {
  if (kind === 'missing') return `${stream} ${key} is upstream, and not here`
  if (kind === 'stale') return `${stream} ${key} is newer upstream`
  return `${stream} ${key} differs in ${columns.slice(0, 3).join(', ')}`
}

/** Living rows whose record is not there any more. */
async function rowsWithout(
  pool: Pool,
  stream: string,
  keyField: string,
  keys: ReadonlySet<string>,
): Promise<readonly string[]> {
  const column = keyField.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase()
  const { rows } = await pool.query<{ key: string }>(
    `select "${column}"::text as key from mirror."${stream}" where _deleted_at is null`,
  )
  return rows
    .filter(({ key }) => !keys.has(key))
    .map(({ key }) => `${stream} ${key} is here, but gone upstream`)
}
