// One poll of a list stream: everything is listed, rows are written as they come, and what is gone is only believed after a
// listing that is proven complete.

import type { Json } from '../../json/json.ts'
import type { ListStream, MirroredStream } from '../../streams/catalog.ts'
import { chooseKeyField, readRecords, withoutTwins } from '../../streams/record.ts'
import { parsedRecords, type RecordList } from '../../wire/record-page.ts'
import { performRun, type RunOutcome, type RunReading } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Run, Store, Written } from '../ports/store.ts'
import { listWhole } from './read-whole.ts'

export type ListContext = {
  readonly store: Store
  readonly source: Source
  readonly stream: ListStream
  /** The operator's choice of the key, which goes before the usual names. */
  readonly keyField: string | null
  readonly pageSize: number
  /** An operator believes that so many rows are gone, although the listing is empty or has shrunk by more than a fifth. */
  readonly approved?: number
  readonly signal: AbortSignal
  readonly onWritten?: (written: Written) => void
}

/** The records have no field that could be their key. */
class KeyUnknown extends Error {
  override readonly name = 'KeyUnknown'
}

/** The operator's choice of the key came after the table was made by another one. */
class KeyChanged extends Error {
  override readonly name = 'KeyChanged'
  constructor(stream: string, wanted: string, known: string) {
    const variable = variableOf({ name: stream })
    super(
      `${variable} is ${wanted}, but the table of ${stream} was made with the key ${known}. Remove ${variable}, or have the table made anew: drop view bi.${stream}; drop table mirror.${stream}; update tidemark.stream set key_field = null where name = '${stream}'`,
    )
  }
}

const variableOf = ({ name }: Pick<MirroredStream, 'name'>): string => `KEY_${name.toUpperCase()}`

export function pollList(context: ListContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'list' }, (run, source) => listOnce(context, run, source))
}

async function listOnce(context: ListContext, run: Run<'list'>, source: Source): Promise<RunReading> {
  const { stream, signal, pageSize } = context
  let { keyField } = run.state
  const { keyField: wanted } = context
  if (keyField !== null && wanted !== null && wanted.toLowerCase() !== keyField.toLowerCase())
    throw new KeyChanged(stream.name, wanted, keyField)
  const read = async (records: RecordList) => {
    if (records.length > 0 && keyField === null) {
      keyField = chooseKey(stream, wanted, parsedRecords(records), true)
      await run.findings.setKeyField(keyField)
    }
    return withoutTwins(readRecords(records, [keyField ?? ''], null))
  }
  // When nothing lacks there is nothing to prove.
  const isEnough = async () => (await run.absences.count(1)) === 0
  const listed = await listWhole({ source, run, pageSize, signal, read, isEnough }, async (page) => {
    const written = await run.pages.commit(page, null)
    context.onWritten?.(written)
  })
  if (!listed.isProven)
    return {
      note: `the list changed while it was read, ${listed.passes} times in a row, so no row was marked deleted`,
      isComplete: false,
      yielded: false,
    }
  const { blocked, waiting } = await run.absences.settle(1, context.approved)
  return {
    note:
      blocked > 0
        ? `deletions blocked: ${blocked} rows disappeared from the upstream at once and were not marked deleted. To see which they are: tidemark deletions list ${stream.name}`
        : null,
    isComplete: blocked === 0,
    // What this list lacks for the first time is not marked yet.
    knowsDeletions: blocked === 0 && waiting === 0,
    yielded: false,
  }
}

/** `keyField` is the operator's choice. */
export function chooseKey(
  stream: Pick<MirroredStream, 'name' | 'keyFields'>,
  keyField: string | null,
  records: readonly Json[],
  areOneAnswer = false,
): string {
  const chosen = chooseKeyField(records, keyField ? [keyField] : stream.keyFields, areOneAnswer)
  if (chosen !== null) return chosen
  const first = records.find((record) => typeof record === 'object' && record !== null)
  const seen = Object.keys(first ?? {}).join(', ') || 'none'
  const variable = variableOf(stream)
  throw new KeyUnknown(
    keyField
      ? `${variable} is ${keyField}, but not every record of ${stream.name} has a value of its own in that field. Fields seen: ${seen}.`
      : `None of ${stream.keyFields.join(', ')} can be the key of ${stream.name}. Set ${variable} to the field that tells its records apart. Fields seen: ${seen}.`,
  )
}
