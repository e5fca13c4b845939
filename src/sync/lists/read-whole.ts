// Lists a stream whole through its list operation, while it changes, until the listing is proven complete. What becomes of a
// page is the caller's; the run remembers which keys were shown.

import type { Records } from '../../streams/record.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { learnt } from '../changes/hypotheses.ts'
import { confirmEmpty, openPipeline } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { SeenKeys } from '../ports/store.ts'
import { KeyOrderBroken, keyListing, listByKey } from './by-key.ts'
import { keyOrderOf } from './key-order.ts'
import {
  beginListing,
  type ListingMove,
  nextPass,
  sawCount,
  sawPage,
  seenPage,
  wantedKeys,
} from './listing.ts'

export type ListWholeContext = {
  readonly source: Pick<Source, 'list' | 'listHasPages'>
  readonly run: { readonly seen: SeenKeys }
  readonly read: (records: RecordList) => Records | Promise<Records>
  readonly pageSize: number
  readonly signal: AbortSignal
  /** Asked after a pass, when its pages are done with: there is nothing left that another pass could prove. */
  readonly isEnough?: () => Promise<boolean>
}
export type Listed = {
  /** Every record that was there was shown. */
  readonly isProven: boolean
  readonly passes: number
  readonly received: number
}

const pagesInFlight = 2
const maxPasses = 6

export async function listWhole(
  context: ListWholeContext,
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  const { source, run, signal } = context
  const pages = openPipeline(pagesInFlight)
  let received = 0
  // Page 1 begins the listing: what later pages showed must not be noted before it.
  let lastSeen: Promise<void> = Promise.resolve()
  const show = async (page: Records, before: Promise<void>, see: () => Promise<void>) => {
    await eachPage(page)
    await before
    await see()
  }
  let move: ListingMove = beginListing({
    askedSize: context.pageSize,
    hasPages: source.listHasPages,
    maxPasses,
    ceiling: null,
  })
  try {
    for (;;) {
      const { listing, step } = move
      switch (step.kind) {
        case 'page': {
          signal.throwIfAborted()
          const { records } = await confirmEmpty(() => source.list(step, signal))
          received += records.length
          const page = await context.read(records)
          const seen = seenPage(records.length, page)
          move = sawPage(listing, seen)
          if (records.length === 0) break
          const before = lastSeen
          await pages.start(() => {
            const showing = show(page, before, () => run.seen.add(listing.pageNumber, wantedKeys(seen, null)))
            lastSeen = showing.catch(() => {})
            return showing
          })
          break
        }
        case 'passed':
          if (context.isEnough) await pages.settled()
          if (await context.isEnough?.()) return { isProven: true, passes: listing.pass, received }
          move = nextPass(listing)
          break
        case 'count':
          await pages.settled()
          move = sawCount(listing, await run.seen.countAround(step.around))
          break
        case 'uncertain':
        case 'only page':
        case 'complete': {
          await pages.settled()
          const isCut = step.kind === 'only page' && step.page.received >= context.pageSize
          return { isProven: step.kind !== 'uncertain' && !isCut, passes: listing.pass, received }
        }
      }
    }
  } finally {
    await pages.settled()
  }
}

/** By key where the list honours that, else page by page. What the one has shown stays good when it breaks off. */
export async function listEverything(
  context: ByKeyContext & Parameters<typeof keyOrderOf>[0],
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  if ((await keyOrderOf(context)) !== 'honoured') return await listWhole(context, eachPage)
  try {
    return await listWholeByKey(context, eachPage)
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) throw error
    await context.run.findings.learn([
      { ...learnt('key_order', 'ignored', error.message), testedAt: context.now() },
    ])
    return await listWhole(context, eachPage)
  }
}

type ByKeyContext = Omit<ListWholeContext, 'isEnough'> & { readonly keyField: string }

/** In the order of the keys no change of other records can hide one, and one pass is enough. */
async function listWholeByKey(
  context: ByKeyContext,
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  const { run } = context
  const pages = listByKey(keyListing(context))
  let received = 0
  for (let number = 1; ; number++) {
    const next = await pages.next()
    if (next.done) return { isProven: next.value.isWhole, passes: 1, received }
    const { records } = next.value
    received += records.length
    const page = await context.read(records)
    await eachPage(page)
    await run.seen.add(number, wantedKeys(seenPage(records.length, page), null))
  }
}
