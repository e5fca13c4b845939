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

export type PageEnds = {
  readonly source: Source
  /** How this upstream ends a list, if that was seen. */
  detected(): readonly Detected[]
}

type Found = { value: string; evidence: string } | null
type Note = {
  found: Found
  /** The last first page, by what was asked and what it looks like. */
  first: { readonly question: string; readonly look: string } | null
}

export function withPageEnds(source: Source): PageEnds {
  const note: Note = { found: null, first: null }
  return {
    source: ending(source, note),
    detected: () => (note.found ? [detected('page_end', note.found.value, note.found.evidence)] : []),
  }
}

function ending(source: Source, note: Note): Source {
  return {
    ...source,
    sortedBy: (field) => ending(source.sortedBy(field), note),
    changes: (request, signal) =>
      page(note, request, {
        ask: async (asked) => {
          const answer = await source.changes(asked, signal)
          // It says so of any page that it does not have, and not of `Sorts` alone.
          return 'refused' in answer && answer.refused === 400 ? { ...answer, noPage: 'status 400' } : answer
        },
        widest: { since: 0n, page: 1, pageSize: 1, sorts: null },
        isWidest: ({ since, below = null }) => since === 0n && below === null,
      }),
    list: (request, signal) =>
      page<ListRequest, Answer>(note, request, {
        ask: (asked) => source.list(asked, signal),
        widest: { page: 1, pageSize: 1 },
        isWidest: ({ byKey }) => (byKey?.after ?? null) === null,
      }),
  }
}

type Paged = { readonly page: number; readonly pageSize: number }

type Way<Request extends Paged, Result> = {
  ask(request: Request): Promise<Result | NoPage>
  /** Shows a record whenever there is any. */
  readonly widest: Request
  isWidest(request: Request): boolean
}
type NoPage = Refusal & { readonly noPage: string }
/** What came instead of a page, and what it is if it is not believed to be an end. */
type Missing = { readonly noPage: string; readonly otherwise: () => never | Refusal }

async function page<Request extends ListRequest | ChangesRequest, Result extends Answer | Refusal>(
  note: Note,
  request: Request,
  way: Way<Request, Result>,
): Promise<Result | Answer> {
  const answer = await asked(way, request)
  if (!('otherwise' in answer)) {
    if (!('records' in answer)) return answer as Result
    if (await isFirstAgain(note, way, request, answer)) return firstAgain(note, request)
    noteEnd(note, request, answer)
    return answer as Result
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

async function asked<Request extends Paged, Result extends Answer | Refusal>(
  { ask }: Way<Request, Result>,
  request: Request,
): Promise<Answer | Refusal | Missing> {
  try {
    const answer = await ask(request)
    if (!('refused' in answer && 'noPage' in answer)) return answer as Answer | Refusal
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
async function endOf<Request extends Paged, Result extends Answer | Refusal>(
  way: Way<Request, Result>,
  request: Request,
  missing: Missing,
): Promise<Answer | Refusal> {
  const { noPage, otherwise } = missing
  if (request.page === 1 && isFailure(way, request, noPage)) return otherwise()
  for (let attempt = 1; ; attempt++) {
    const isEnd = request.page === 1 ? await isNone(way, request, noPage) : await isBehind(way, request)
    const again = await asked(way, request)
    if (!('otherwise' in again)) return again
    if (isEnd && again.noPage === noPage) return { records: [], bytes: 0, noPage }
    if (isEnd === null || again.noPage !== noPage || attempt === mostAttempts) return again.otherwise()
  }
}

/** Whether it is an end; null: it is none, whatever has come or gone meanwhile. */
type Verdict = boolean | null

/** Statuses of a request that is wrong: a first page that is merely empty is not. */
const ofWrongRequests = ['status 400', 'status 416']

const isFailure = <Request extends Paged, Result>(
  way: Way<Request, Result>,
  request: Request,
  noPage: string,
): boolean => ofWrongRequests.includes(noPage) || (way.isWidest(request) && !ofSuccess.includes(noPage))

/** All went well, and there is nothing: that says as much as an empty list. */
const ofSuccess = ['status 204', 'null']

/** Of what was asked for there is no record, if there are others. */
async function isNone<Request extends Paged, Result extends Answer | Refusal>(
  way: Way<Request, Result>,
  request: Request,
  noPage: string,
): Promise<Verdict> {
  if (ofSuccess.includes(noPage)) return true
  if (isFailure(way, request, noPage)) return null
  return 'records' in (await asked(way, way.widest)) || null
}

async function isBehind<Request extends Paged, Result extends Answer | Refusal>(
  way: Way<Request, Result>,
  request: Request,
): Promise<Verdict> {
  const before = await asked(way, { ...request, page: request.page - 1 })
  if ('records' in before) return await isLast(way, request, before)
  if (!('otherwise' in before)) return null
  // It was asked for from far behind the end.
  const first = request.page === 2 ? before : await asked(way, { ...request, page: 1 })
  if ('records' in first) return true
  return 'otherwise' in first ? await isNone(way, { ...request, page: 1 }, first.noPage) : null
}

/** Whether there is an end behind this page, which is there. */
async function isLast<Request extends Paged, Result extends Answer | Refusal>(
  way: Way<Request, Result>,
  { page: missing, ...request }: Request,
  { records: { length }, total = null }: Answer,
): Promise<boolean> {
  const size = Math.max(request.pageSize, length)
  const shown = (missing - 1) * size
  if (length !== request.pageSize) return true
  // On a first page, such a number may be that of its own records.
  if (total === shown && total > length) return true
  const other = otherSize(size, shown)
  const inMiddle = { ...request, page: Math.floor(shown / other) + 1, pageSize: other } as Request
  // So many more than a page could hide are not shown.
  const isCutOff = total !== null && total > shown + size
  if (!isCutOff) {
    const middle = await asked(way, inMiddle)
    if ('records' in middle && middle.records.length !== other) return true
  }
  // Where pages have a length of their own, no page ends in the middle, and a total counts other pages.
  const first = await asked(way, { ...inMiddle, page: 1 })
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
async function isFirstAgain<Request extends Paged, Result extends Answer | Refusal>(
  note: Note,
  way: Way<Request, Result>,
  request: Request,
  { records }: Answer,
): Promise<boolean> {
  const { length } = records
  if (length < enoughRecords) return false
  const question = questionOf(request)
  const look = JSON.stringify([length, recordText(records, 0), recordText(records, length - 1)])
  if (request.page === 1) note.first = { question, look }
  if (request.page === 1 || note.first?.question !== question || note.first.look !== look) return false
  const texts = async (asking: Paged): Promise<readonly string[]> => {
    const answer = await asked(way, { ...request, ...asking })
    if (!('records' in answer)) return []
    return Array.from({ length: answer.records.length }, (_, index) => recordText(answer.records, index))
  }
  const { page, pageSize } = request
  const pages = [page, 1, page, 1].map((number) => () => texts({ page: number, pageSize }))
  let first: readonly string[] = []
  for (const ask of pages) {
    const shown = await ask()
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
