// Counts the records of a list. The upstream does not tell, so pages further and further on are asked for until one is not full; then
// halving finds the end. The pages are small, so that all of it takes less than one page of a reading.

import { parsedRecords, type RecordList } from '../../wire/record-page.ts'
import type { Source } from '../ports/source.ts'

export type Counted = { readonly records: number; readonly requests: number }

const smallPage = 100
const stride = 4
/** No list has so many pages: such a one serves full pages for ever. */
const mostPages = 2 ** 26

/** Null: this list cannot be counted, because it has no pages, or does not keep to what was asked for. */
export async function countRecords(
  source: Pick<Source, 'list' | 'listHasPages'>,
  signal: AbortSignal,
): Promise<Counted | null> {
  if (!source.listHasPages) return null
  let requests = 0
  const ask = async (page: number, pageSize: number) => {
    signal.throwIfAborted()
    requests += 1
    return (await source.list({ page, pageSize }, signal)).records
  }
  const [first, second] = [await ask(1, smallPage), await ask(2, smallPage)]
  const size = first.length
  if (size > smallPage || second.length > smallPage) return null
  // A first page that is not full may be all there is, or as long as the upstream makes pages: page 2 of that length tells.
  const isAll = second.length === 0 && (size === 0 || (await ask(2, size)).length === 0)
  if (isAll) return { records: size, requests }
  if (isSame(first, second)) return null
  const lengthOf = async (page: number) => (await ask(page, size)).length
  let [full, short, last] = [1, 0, 0]
  for (let page = 2; short === 0; page *= stride) {
    const length = await lengthOf(page)
    if (length > size || page > mostPages) return null
    if (length === size) full = page
    else [short, last] = [page, length]
  }
  while (short - full > 1 && last === 0) {
    const middle = full + Math.floor((short - full) / 2)
    const length = await lengthOf(middle)
    if (length === size) full = middle
    else [short, last] = [middle, length]
  }
  return { records: (short - 1) * size + last, requests }
}

/** Page 2 shows page 1 again. */
function isSame(one: RecordList, other: RecordList): boolean {
  const [a, b] = [parsedRecords(one)[0], parsedRecords(other)[0]]
  return JSON.stringify(a) === JSON.stringify(b)
}

// While a first load goes on, its records are counted: when the first pages are in, and again every few minutes.
type CountingLoad = {
  readonly source: Pick<Source, 'list' | 'listHasPages'>
  readonly isDue: () => Promise<boolean>
  readonly note: (counted: Counted) => Promise<void>
  readonly everyMs: number
  readonly signal: AbortSignal
  /** It cannot be counted at the moment; the load goes on. */
  readonly onError: (error: unknown) => void
}

/** Counting begins after so many pages: a smaller list is loaded before it is counted. */
const pagesBefore = 2

export function countWhileLoading(options: CountingLoad) {
  const ending = new AbortController()
  const signal = AbortSignal.any([options.signal, ending.signal])
  let pages = 0
  let timer: NodeJS.Timeout | undefined
  let counting: Promise<void> = Promise.resolve()
  const count = async () => {
    if (!(await options.isDue())) return
    const counted = await countRecords(options.source, signal)
    if (counted) await options.note(counted)
  }
  const begin = () => {
    counting = count().catch((error) => {
      if (!signal.aborted) options.onError(error)
    })
  }
  return {
    pageCame() {
      pages += 1
      if (pages !== pagesBefore) return
      begin()
      timer = setInterval(begin, options.everyMs).unref()
    },
    async end() {
      clearInterval(timer)
      ending.abort(new Error('the load is over'))
      await counting
    },
  }
}
