// The proof of the demo: every record of the made-up upstream is compared with its row, value by value, or has to be in the quarantine if it
// cannot be one; and every living row has to be a record. Only the demo can look into its upstream like this.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { SyncContext } from '../context.ts'
import type { Json } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import type { Simulator } from '../simulator/simulator.ts'
import { readVersionField } from '../store/book/checkpoints.ts'
import { versionedBy } from '../streams/catalog.ts'
import { isObject, readRecords } from '../streams/record.ts'

export type Proof = Awaited<ReturnType<typeof proveCopy>>

const streams = ['assignment', 'assignment_note'] as const
const pageSize = 1_000
const mostTold = 5
/** Two polls of the demo. */
const settleMs = 6_000

type Parts = { readonly simulator: Simulator; readonly context: SyncContext }

/** Compares twice, and counts what differs both times: a difference that is gone after the next polls was only a change on its way. */
export async function proveCopy(parts: Parts, signal: AbortSignal) {
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

type Compared = Awaited<ReturnType<typeof compareAll>>

const proofOf = ({ at, compared, quarantined }: Compared, told: readonly string[]) => ({
  at,
  compared,
  quarantined,
  /** The first of them, in words. */
  differences: told.slice(0, mostTold),
  total: told.length,
})

async function compareAll({ simulator, context }: Parts) {
  const at = new Date()
  const told: string[] = []
  let [compared, quarantined] = [0, 0]
  for (const name of streams) {
    const stream = context.streams.find((one) => one.name === name)
    if (stream?.kind !== 'changes') continue
    const { pool } = context.database
    const versioned = versionedBy(stream, await readVersionField(pool, name))
    const keyField = stream.keyFields[0] ?? ''
    const keys = new Set<string>()
    const rejected: string[] = []
    const texts = simulator.source.texts(name)
    for (let start = 0; start < texts.length; start += pageSize) {
      const parsed = texts.slice(start, start + pageSize).map((text) => parseJson(Buffer.from(text)))
      const page = readRecords(parsed, versioned.keyFields, versioned.versionFields)
      compared += page.rows.length
      rejected.push(...page.rejected.map(({ record }) => keyIn(record, keyField)))
      for (const { key } of page.rows) keys.add(key)
      for (const { key, kind, columns } of await context.compareOnce(versioned, page))
        told.push(inWords(name, key, kind, columns))
    }
    // Records that cannot be rows.
    const aside = await quarantinedOf(pool, name, keyField, rejected)
    quarantined += aside.size
    for (const key of rejected)
      if (!aside.has(key))
        told.push(`${name} ${key} is upstream, and neither a row nor in the quarantine here`)
    told.push(...(await rowsWithout(pool, name, keyField, new Set([...keys, ...rejected]))))
  }
  return { at, compared, quarantined, told }
}

function keyIn(record: Json, keyField: string): string {
  const found = isObject(record)
    ? Object.entries(record).find(([name]) => name.toLowerCase() === keyField.toLowerCase())
    : undefined
  return found ? String(found[1]) : 'without a key'
}

/** Which of these keys are those of records in the quarantine. */
async function quarantinedOf(
  pool: Pool,
  stream: string,
  keyField: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> {
  if (keys.length === 0) return new Set()
  const { rows } = await pool.query<{ key: string }>(
    `select own.value as key from tidemark.quarantine
     cross join lateral jsonb_each_text(coalesce(record_text, record::text)::jsonb) as own (name, value)
     where stream = $1 and dropped_at is null and lower(own.name) = lower($2) and own.value = any ($3)`,
    [stream, keyField, keys],
  )
  return new Set(rows.map(({ key }) => key))
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
