// One poll of a list stream: lists everything and writes rows as they come. That a row is gone is believed only after a listing that is
// proven complete.

import type { Json } from '../../json/json.ts'
import type { ListStream, MirroredStream } from '../../streams/catalog.ts'
import { isObject, keyReader, type Row, readRecords } from '../../streams/record.ts'
import {
  type ChosenBy,
  chooseKeyField,
  keyVariable,
  sharedKeyReason,
  usableFields,
  withoutTwins,
} from '../../streams/twins.ts'
import { count } from '../../util/text.ts'
import { parsedRecords, type RecordList } from '../../wire/record-page.ts'
import { performRun, type ReadingContext, type RunOutcome, type RunReading } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { Run } from '../ports/store.ts'
import { listWhole, whyUnproven } from './read-whole.ts'

type ListContext = Omit<ReadingContext<ListStream>, 'now'> & {
  /** An operator believes that so many rows are gone, although the listing is empty or has shrunk by more than a fifth. */
  readonly approved?: number
}

/** The records have no field that could be their key. */
class KeyUnknown extends Error {
  override readonly name = 'KeyUnknown'
}

export function pollList(context: ListContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'list' }, (run, source) => listOnce(context, run, source))
}

async function listOnce(context: ListContext, run: Run<'list'>, source: Source): Promise<RunReading> {
  const { stream, signal, pageSize } = context
  const { keyField: wanted = null } = context
  // If the operator names another key than before, it is checked and set when the first records come.
  let keyField = isOtherKey(run.state.keyField, wanted) ? null : run.state.keyField
  const read = async (records: RecordList) => {
    if (records.length > 0 && keyField === null) {
      keyField = chooseKey(stream, wanted, parsedRecords(records), true)
      await run.findings.setKeyField(keyField)
    }
    return withoutTwins(readRecords(records, [keyField ?? ''], null), chosenBy(stream, keyField))
  }
  let [pages, inserted, isAgain] = [0, 0, false]
  // If no row is missing, there is no deletion to prove, and no further pass is needed. But if records were new, a deletion may have moved
  // another new one from a page that was still to come to one that was read already: a second pass shows it. Not a third one for those that
  // came meanwhile: a list that grows all the time would never be read.
  const isEnough = async () => {
    const mayLackNew = !isAgain && pages > 1 && inserted > 0
    isAgain = true
    return !mayLackNew && (await run.absences.count(1)) === 0
  }
  const listing = { source, run, pageSize, signal, read }
  const listed = await listWhole({ ...listing, isEnough, tellsTwins: true }, async (page) => {
    pages++
    const written = await run.pages.commit(page, null)
    inserted += written.inserted
    context.onWritten?.(written, null)
  })
  const twice = pages > 1 ? await run.seen.twice(mostTwins) : []
  const absences = listed.isProven ? await run.absences.settle(1, context.approved) : null
  if (twice.length > 0) await keepTwins(new Set(twice), run, listing, chosenBy(stream, keyField))
  if (absences === null)
    return { note: `${whyUnproven(listed)}, so no row was marked deleted`, isComplete: false }
  const { blocked, waiting, markedBefore = 0 } = absences
  const before = markedBefore > 0 ? `, after ${count(markedBefore)} others were marked within a day,` : ''
  return {
    note:
      blocked > 0
        ? `deletions blocked: ${count(blocked)} rows disappeared from the upstream at once${before} and were not marked deleted. To see which they are: tidemark deletions list ${stream.name}`
        : null,
    isComplete: blocked === 0,
    // A row that this list lacks for the first time is not marked yet.
    knowsDeletions: blocked === 0 && waiting === 0,
  }
}

const chosenBy = (stream: ListStream, keyField: string | null): ChosenBy => ({
  variable: keyVariable(stream),
  keyField: keyField ?? '',
})

const mostTwins = 100

/**
 * Two records with one key on different pages: the row holds the one of the later page, and the other goes into quarantine (P5). A second
 * listing tells them from a single record that changed and moved while the first one went on.
 */
async function keepTwins(
  keys: ReadonlySet<string>,
  run: Run<'list'>,
  listing: Parameters<typeof listWhole>[0],
  chosen: ChosenBy,
): Promise<void> {
  const shown: Row[] = []
  let usable: ReadonlySet<string> | null = null
  await listWhole({ ...listing, isEnough: async () => true }, async (page) => {
    usable = usableFields(page.rows, usable)
    for (const { key, version, record } of page.rows) if (keys.has(key)) shown.push({ key, version, record })
  })
  const { rejected } = withoutTwins({ rows: shown, rejected: [] }, chosen, () => usable ?? new Set())
  if (rejected.length > 0) await run.pages.commit({ rows: [], rejected }, null)
}

/** Whether the key that is known is not the one that an operator named. */
export const isOtherKey = (known: string | null, wanted: string | null): boolean =>
  known !== null && wanted !== null && wanted.toLowerCase() !== known.toLowerCase()

/** `keyField` is the operator's choice. */
export function chooseKey(
  stream: Pick<MirroredStream, 'name' | 'keyFields'>,
  keyField: string | null,
  records: readonly Json[],
  areOneAnswer = false,
): string {
  const chosen = keyField
    ? chooseKeyField(records, [keyField], areOneAnswer)
    : chooseKeyField(mostlyKeyed(records, stream.keyFields), stream.keyFields, areOneAnswer)
  if (chosen !== null) return chosen
  const first = records.find((record) => typeof record === 'object' && record !== null)
  const seen = Object.keys(first ?? {}).join(', ') || 'none'
  const variable = keyVariable(stream)
  const told = `${adviceOf(records, keyField ? [keyField] : stream.keyFields, variable)} Fields seen: ${seen}.`
  throw new KeyUnknown(
    keyField
      ? `${variable} is ${keyField}, but not every record of ${stream.name} has ${keyField.includes(',') ? 'values of its own in these fields together' : 'a value of its own in that field'}.${told}`
      : `None of ${stream.keyFields.join(', ')} can be the key of ${stream.name}. Set ${variable} to the field that tells its records apart, or to several with commas between them.${told}`,
  )
}

/** Without those that have none of these, if they are few: they are no rows by any key, and go to quarantine as they do later (P5). */
function mostlyKeyed(records: readonly Json[], candidates: readonly string[]): readonly Json[] {
  const readers = candidates.map((candidate) => keyReader([candidate]))
  const keyed = records.filter(
    (record) => isObject(record) && readers.some((keyOf) => keyOf(record) !== null),
  )
  return 2 * keyed.length > records.length ? keyed : records
}

/** Which setting would help, if a field is no key only because records share its value. */
function adviceOf(records: readonly Json[], candidates: readonly string[], variable: string): string {
  for (const keyField of candidates) {
    const { rejected } = withoutTwins(readRecords(records, [keyField], null), { variable, keyField })
    const [first] = rejected
    const told = first?.reason.startsWith(sharedKeyReason) ? first.reason.split('; ')[1] : undefined
    if (told !== undefined) return ` ${told}.`
  }
  return ''
}
