// The end of a list in every dialect. Behind the last page a service may serve an empty list, or say that there is no such page: with a
// status, or with `null`. That is turned into an empty page here, so that the rules of reading see one kind of end. It is believed only
// if the service has just answered the page before, or another that has to be there, and says the same when it is asked again: a route
// that was removed, or a right that was lost, is no end (P11). A full page before needs more: nothing may be behind it because paging
// goes no further. Then the page is asked for once more in another size, and has to end in its middle, or the service has to tell a
// total that agrees.

import { isDeepStrictEqual } from 'node:util'
import { plural } from '../../util/text.ts'
import { isRecordPage, type RecordList } from '../../wire/record-page.ts'
import { type Detected, detected } from '../capabilities.ts'
import {
  type Answer,
  type ChangesRequest,
  type ListRequest,
  type Refusal,
  type Source,
  saysNoPage,
} from '../ports/source.ts'

type Note = {
  /** How this upstream ends a list, if that was seen. */
  found: { readonly value: string; readonly evidence: string } | null
  /** The last first page, by what was asked and what it looks like. */
  first: { readonly question: string; readonly look: string } | null
}

export function withPageEnds(source: Source) {
  const note: Note = { found: null, first: null }
  return {
    source: ending(source, note),
    detected: (): readonly Detected[] =>
      note.found ? [detected('page_end', note.found.value, note.found.evidence)] : [],
  }
}

function ending(source: Source, note: Note): Source {
  return {
    ...source,
    sortedBy: (field) => ending(source.sortedBy(field), note),
    changes: (request, signal) =>
      page(note, request, {
        ask: async (paged) => {
          const answer = await source.changes({ ...request, ...paged }, signal)
          // It says so of any page that it does not have, and not of `Sorts` alone.
          return 'refused' in answer && answer.refused === 400 ? { ...answer, noPage: 'status 400' } : answer
        },
        askWidest: () => source.changes({ since: 0n, page: 1, pageSize: 1, sorts: null }, signal),
        isWidest: request.since === 0n && (request.below ?? null) === null,
      }),
    list: (request, signal) =>
      page<Answer>(note, request, {
        ask: (paged) => source.list({ ...request, ...paged }, signal),
        askWidest: () => source.list({ page: 1, pageSize: 1 }, signal),
        isWidest: (request.byKey?.after ?? null) === null,
      }),
  }
}

type Paged = { readonly page: number; readonly pageSize: number }

/** How pages of what is asked for are asked for. */
type Way = {
  ask(paged: Paged): Promise<Answer | Refusal | NoPage>
  /** Shows a record whenever there is any. */
  askWidest(): Promise<Answer | Refusal>
  readonly isWidest: boolean
}
type NoPage = Refusal & { readonly noPage: string }
/** What came instead of a page, and what it is if it is not believed to be an end. */
type Missing = { readonly noPage: string; readonly otherwise: () => never | Refusal }

async function page<Result extends Answer | Refusal = Answer | Refusal>(
  note: Note,
  request: ListRequest | ChangesRequest,
  way: Way,
): Promise<Result | Answer> {
  const answer = await asked(() => way.ask(request))
  if (!('otherwise' in answer)) {
    if (!('records' in answer)) return answer as Result
    if (await isFirstAgain(note, way, request, answer)) return firstAgain(note, request)
    noteEnd(note, request, answer)
    return answer
  }
  const end = await endOf(way, request, answer)
  if (!('records' in end)) return end as Result
  if (end.records.length === 0 && request.page > 1)
    note.found = {
      value: answer.noPage,
      evidence: `asked for page ${request.page} of ${plural(request.pageSize, 'record')} it answered ${answer.noPage} twice, and pages before that were there`,
    }
  return end
}

async function asked(ask: () => Promise<Answer | Refusal | NoPage>): Promise<Answer | Refusal | Missing> {
  try {
    const answer = await ask()
    if (!('refused' in answer && 'noPage' in answer)) return answer
    const { noPage, ...refusal } = answer
    return { noPage, otherwise: () => refusal }
  } catch (error) {
    const noPage = saysNoPage(error)
    if (noPage === null) throw error
    return {
      noPage,
      otherwise: () => {
        throw error
      },
    }
  }
}

/** Each takes a few requests; while records come and go in between, one may fail. */
const mostAttempts = 5

/** What to take for the page: nothing, or what comes when it is asked for again. */
async function endOf(way: Way, paged: Paged, { noPage, otherwise }: Missing): Promise<Answer | Refusal> {
  if (paged.page === 1 && isFailure(way, noPage)) return otherwise()
  for (let attempt = 1; ; attempt++) {
    const isEnd = paged.page === 1 ? await isNone(way, noPage) : await isBehind(way, paged)
    const again = await asked(() => way.ask(paged))
    if (!('otherwise' in again)) return again
    if (isEnd && again.noPage === noPage) return { records: [], bytes: 0, noPage }
    if (isEnd === null || again.noPage !== noPage || attempt === mostAttempts) return again.otherwise()
  }
}

/** Whether it is an end; null: it is none, whatever has come or gone meanwhile. */
type Verdict = boolean | null

/** Statuses of a request that is wrong: a first page that is merely empty is not. */
const ofWrongRequests = ['status 400', 'status 416']

const isFailure = ({ isWidest }: Way, noPage: string): boolean =>
  ofWrongRequests.includes(noPage) || (isWidest && !ofSuccess.includes(noPage))

/** All went well, and there is nothing: that says as much as an empty list. */
const ofSuccess = ['status 204', 'null']

/** Of what was asked for there is no record, if there are others. */
async function isNone(way: Way, noPage: string): Promise<Verdict> {
  if (ofSuccess.includes(noPage)) return true
  if (isFailure(way, noPage)) return null
  return 'records' in (await asked(way.askWidest)) || null
}

async function isBehind(way: Way, { page, pageSize }: Paged): Promise<Verdict> {
  const before = await asked(() => way.ask({ page: page - 1, pageSize }))
  if ('records' in before) return await isLast(way, { page, pageSize }, before)
  if (!('otherwise' in before)) return null
  // It was asked for from far behind the end.
  const first = page === 2 ? before : await asked(() => way.ask({ page: 1, pageSize }))
  if ('records' in first) return true
  return 'otherwise' in first ? await isNone(way, first.noPage) : null
}

/** Whether there is an end behind this page, which is there. */
async function isLast(
  way: Way,
  { page: missing, pageSize }: Paged,
  { records: { length }, total = null }: Answer,
): Promise<boolean> {
  const size = Math.max(pageSize, length)
  const shown = (missing - 1) * size
  if (length !== pageSize) return true
  // On a first page, such a number may be that of its own records.
  if (total === shown && total > length) return true
  const other = otherSize(size, shown)
  // So many more than a page could hide are not shown.
  const isCutOff = total !== null && total > shown + size
  if (!isCutOff) {
    const middle = await asked(() => way.ask({ page: Math.floor(shown / other) + 1, pageSize: other }))
    if ('records' in middle && middle.records.length !== other) return true
  }
  // Where pages have a length of their own, no page ends in the middle, and a total counts other pages.
  const first = await asked(() => way.ask({ page: 1, pageSize: other }))
  if (!('records' in first)) return false
  // So small that no shorter page tells: a longer one shows no more than this, and a total may count what is hidden.
  const showsNoMore = missing === 2 && other > size && first.records.length <= length
  return first.records.length > other || showsNoMore
}

/** A length of pages such that so many records fill about half of the last one: some more or fewer make no difference. */
function otherSize(size: number, records: number): number {
  const isFull = (other: number) => Math.abs((records % other) / other - 0.5)
  const shorter = Array.from({ length: Math.floor(size / 2) }, (_, index) => size - 1 - index)
  const usable = [...shorter, size + 1, size + 2].filter((other) => other > 0 && records % other !== 0)
  const [first = records + 1, ...others] = usable.some((other) => other < size)
    ? usable.filter((other) => other < size)
    : usable
  return others.reduce((best, other) => (isFull(other) < isFull(best) ? other : best), first)
}

// ── the first page again ─────────────────────────────────────────────────────────────────────────────────────

/** Of fewer records some may stand in the same order by chance. */
const enoughRecords = 4

/**
 * Some services begin anew at a page that they do not have. Such a page is the first one, record by record, also when both are asked for
 * again; and asked for in half the size, the second page is another than the first, so that the page number does count.
 */
async function isFirstAgain(note: Note, way: Way, request: Paged, { records }: Answer): Promise<boolean> {
  const { length } = records
  if (length < enoughRecords) return false
  const question = questionOf(request)
  const look = JSON.stringify([length, recordText(records, 0), recordText(records, length - 1)])
  if (request.page === 1) note.first = { question, look }
  if (request.page === 1 || note.first?.question !== question || note.first.look !== look) return false
  const texts = async (paged: Paged): Promise<readonly string[]> => {
    const answer = await asked(() => way.ask(paged))
    if (!('records' in answer)) return []
    return Array.from({ length: answer.records.length }, (_, index) => recordText(answer.records, index))
  }
  const { page, pageSize } = request
  let first: readonly string[] = []
  for (const number of [page, 1, page, 1]) {
    const shown = await texts({ page: number, pageSize })
    if (first.length > 0 && !isDeepStrictEqual(shown, first)) return false
    first = shown
  }
  const half = first.length >> 1
  const second = await texts({ page: 2, pageSize: half })
  // Had the first record changed meanwhile, it would look like another one.
  const [stillFirst] = await texts({ page: 1, pageSize: half })
  return second[0] !== undefined && second[0] !== first[0] && stillFirst === first[0]
}

const questionOf = (request: Paged): string =>
  JSON.stringify({ ...request, page: null, pageSize: null, lowPriority: null }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )

function recordText(records: RecordList, index: number): string {
  if (!isRecordPage(records)) return JSON.stringify(records[index])
  const { recordStarts, recordEnds } = records.places
  return records.bytes.toString('utf8', recordStarts[index], recordEnds[index])
}

function firstAgain(note: Note, { page, pageSize }: Paged): Answer {
  const noPage = 'the first page again'
  note.found = {
    value: noPage,
    evidence: `asked for page ${page} of ${plural(pageSize, 'record')} it served page 1, three times`,
  }
  return { records: [], bytes: 0, noPage }
}

/** No list is as long as this. */
export const farBehind = 1_000_000_000
export const pageAgain = 'a page that came before'

function noteEnd(note: Note, { page, pageSize }: Paged, { records: { length } }: Answer): void {
  if (page === 1 || note.found) return
  const place = `asked for page ${page} of ${plural(pageSize, 'record')} it served`
  if (length === 0) note.found = { value: 'an empty list', evidence: `${place} an empty list` }
  else if (page * pageSize >= farBehind)
    note.found = { value: pageAgain, evidence: `${place} ${plural(length, 'record')}` }
}

// ── an empty answer ──────────────────────────────────────────────────────────────────────────────────────────

/** An upstream may answer with nothing by mistake. Where that would be taken for the end, it is asked for a second time. */
export async function confirmEmpty<Any extends Answer | Refusal>(ask: () => Promise<Any>): Promise<Any> {
  const answer = await ask()
  const isNothing = 'records' in answer && answer.records.length === 0 && answer.noPage === undefined
  return isNothing ? ask() : answer
}
