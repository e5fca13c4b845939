// Tries records in quarantine again: as the upstream has them now where it can be asked, as they were kept where it cannot. What
// became a row leaves the quarantine.

import type { Json } from '../../json/json.ts'
import { type Stream, versionedBy } from '../../streams/catalog.ts'
import { isObject, keyReader, type Records, readRecords } from '../../streams/record.ts'
import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Run } from '../ports/store.ts'

export type Quarantined = { readonly id: string; readonly record: Json }
type RetryContext = Pick<ReadingContext<Stream>, 'store' | 'source' | 'stream' | 'signal'> & {
  readonly entries: AsyncIterable<Quarantined>
  /** One is to become a row as it was kept: whether its record has vanished since it last came, nobody knows. */
  readonly doubt: (id: string) => Promise<void>
  /** Takes one out of the quarantine, and says why. */
  readonly settle: (id: string, why: string) => Promise<void>
}
const newFindings = () => ({
  tried: 0,
  taken: 0,
  /** Another record of their key is a row by now. */
  replaced: 0,
  gone: 0,
})
export type RetryOutcome = RunOutcome & { readonly findings: Readonly<ReturnType<typeof newFindings>> }

type RetryRun = Run<'quarantine-retry'>

export async function retryQuarantine(context: RetryContext): Promise<RetryOutcome> {
  const { stream, signal, entries, doubt, settle } = context
  const findings = newFindings()
  const outcome = await performRun({ ...context, kind: 'quarantine-retry' }, async (run, counted) => {
    const { keyFields, read } = readerOf(stream, run)
    run.progress.step('Ask for the records again, one by one')
    for await (const { id, record } of entries) {
      signal.throwIfAborted()
      findings.tried += 1
      const current = await lookAgain(keyFields, counted, record, signal)
      if (current === 'gone') {
        findings.gone += 1
        await settle(id, 'the upstream no longer has the record')
      } else if (stream.kind === 'list' && current === null && (await hasRow(run, read(record)))) {
        findings.replaced += 1
        await settle(id, 'a later record with its key is a row')
      } else {
        if (current === null) await doubt(id)
        if (!(await becomesRow(run, read(current ?? record)))) continue
        findings.taken += 1
        await settle(
          id,
          current ? 'became a row, as the upstream has it now' : 'became a row, as it was kept',
        )
      }
    }
    return { note: `quarantine: ${findings.taken} of ${findings.tried} became rows`, isComplete: false }
  })
  return { ...outcome, findings }
}

/** How records of the stream are read, and by which fields their keys. */
function readerOf(stream: Stream, { state }: RetryRun) {
  const keyFields = state.keyField === null ? stream.keyFields : [state.keyField]
  const versioned = versionedBy(stream, state.versionField)
  const versionFields = versioned.kind === 'changes' ? versioned.versionFields : null
  return { keyFields, read: (record: Json) => readRecords([record], keyFields, versionFields) }
}

/** Null when the upstream cannot be asked for it, or does not tell. */
async function lookAgain(
  keyFields: readonly string[],
  { lookup }: Source,
  record: Json,
  signal: AbortSignal,
): Promise<Json | 'gone' | null> {
  const key = lookup && isObject(record) ? keyReader(keyFields)(record) : null
  if (!lookup || key === null) return null
  const answer = await lookup(key, signal)
  if (answer === 'gone') return 'gone'
  return answer === 'unclear' ? null : answer.found
}

/** Without row versions nothing tells which record is older. The kept one is not newer than the row, so it must not replace it (P3). */
async function hasRow(run: RetryRun, records: Records): Promise<boolean> {
  if (records.rows.length === 0) return false
  const [difference] = await run.verification.compare(records)
  return difference?.kind !== 'missing'
}

async function becomesRow(run: RetryRun, records: Records): Promise<boolean> {
  if (records.rows.length === 0) return false
  return (await run.pages.commit(records, null)).quarantined === 0
}
