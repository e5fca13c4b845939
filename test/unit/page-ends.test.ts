// What is believed to be the end of a list (P6, P11): each way to say that there is no such page, and each way to say so by mistake.

import { describe, expect, it } from 'vitest'
import { withPageEnds } from '../../src/sync/lists/page-ends.ts'
import type { ChangesRequest, ListRequest, Refusal, Source } from '../../src/sync/ports/source.ts'
import { neverAborted } from '../support/context.ts'
import { NoPage } from '../support/model-upstream.ts'

type Service = {
  readonly records: number
  /** What it says of a page that is not there. */
  readonly says: string
  /** Pages go no further than so many records. */
  readonly limit?: number
  /** A page with this record on it cannot be served. */
  readonly broken?: number
  readonly tellsTotal?: boolean
  /** Pages are of this size, whatever was asked for. */
  readonly ownSize?: number
  /** Says so of everything. */
  readonly isGone?: boolean
  /** Of its requests, this one goes wrong. */
  readonly slipsAt?: number
  readonly isFirstAgain?: boolean
  /** Every page is the first, and from this request on its first record is another version. */
  readonly isAlwaysFirst?: { readonly writtenAt: number }
  /** Says so of a first page without records, too. */
  readonly isAlsoFirst?: boolean
  /** So many of the first records are left out of pages, and counted by the total. */
  readonly hidden?: number
}

function serviceOf(service: Service) {
  const { records, says, limit = Number.POSITIVE_INFINITY, tellsTotal, ownSize, broken } = service
  let requests = 0
  const serve = (page: number, asked: number, since = 0) => {
    requests += 1
    const size = ownSize ?? asked
    const all = Array.from({ length: records }, (_, index) => ({ Id: index + 1 })).filter(
      ({ Id }) => Id > since,
    )
    const shown = all.slice((page - 1) * size, page * size)
    const { isAlwaysFirst: always } = service
    if (always) {
      const first = all.slice(0, size).map((row) => ({ ...row, Version: 0 }))
      if (requests >= always.writtenAt && first[0]) first[0].Version = 1
      return { records: first, bytes: 1 }
    }
    if (service.isFirstAgain && shown.length === 0) return { records: all.slice(0, size), bytes: 1 }
    const isMissing =
      (shown.length === 0 && (page > 1 || service.isAlsoFirst)) ||
      page * size > limit ||
      shown.some(({ Id }) => Id === broken) ||
      service.isGone ||
      service.slipsAt === requests
    if (isMissing) throw new NoPage(says)
    const allowed = shown.filter(({ Id }) => Id > (service.hidden ?? 0))
    return { records: allowed, bytes: 1, ...(tellsTotal && { total: records }) }
  }
  const source: Source = {
    sortedBy: () => source,
    async changes({ page, pageSize, since, sorts }: ChangesRequest) {
      try {
        return serve(page, pageSize, Number(since))
      } catch (error) {
        if (sorts && says === 'status 400') return { refused: 400 }
        throw error
      }
    },
    list: async ({ page, pageSize }: ListRequest) => serve(page, pageSize),
    listHasPages: true,
    lookup: null,
  }
  const ends = withPageEnds(source)
  const list = async (page: number, pageSize = 20) => {
    const answer = await ends.source.list({ page, pageSize }, neverAborted)
    return { received: answer.records.length, requests, end: ends.detected()[0]?.value }
  }
  const changes = async (request: Partial<ChangesRequest>): Promise<number | Refusal> => {
    const asked = { since: 0n, page: 1, pageSize: 20, sorts: null, ...request }
    const answer = await ends.source.changes(asked, neverAborted)
    return 'refused' in answer ? answer : answer.records.length
  }
  return { list, changes }
}

const statuses = ['status 204', 'status 400', 'status 404', 'status 410', 'status 416', 'null']

describe('a page behind the last one', () => {
  it.each(statuses)('is empty where the upstream says %s behind a page that was not full', async (says) => {
    expect(await serviceOf({ records: 90, says }).list(6)).toEqual({ received: 0, requests: 3, end: says })
  })

  it('is empty behind a full page if the list ends in the middle of a page of another size', async () => {
    expect(await serviceOf({ records: 100, says: 'status 404' }).list(6)).toMatchObject({
      received: 0,
      requests: 4,
    })
    const own = { records: 60, says: 'status 404', ownSize: 20 }
    expect(await serviceOf(own).list(4)).toMatchObject({ received: 0 })
    expect(await serviceOf({ ...own, ownSize: 30 }).list(3, 30)).toMatchObject({ received: 0 })
  })

  it('is empty behind a full page if a total agrees, and then takes one request less', async () => {
    const told = { records: 100, says: 'status 400', tellsTotal: true }
    expect(await serviceOf(told).list(6)).toMatchObject({ received: 0, requests: 3 })
  })

  it('is empty behind a page of one record if a larger one shows no more, though a total counts what is hidden', async () => {
    const hiding = { records: 3, hidden: 2, ownSize: 30, says: 'status 404', tellsTotal: true }
    expect(await serviceOf(hiding).list(2, 1)).toMatchObject({ received: 0, requests: 4 })
    await expect(
      serviceOf({ records: 3, limit: 1, says: 'status 404', tellsTotal: true }).list(2, 1),
    ).rejects.toThrow('status 404')
  })

  it('is empty far behind the end, where the page before is missing as well', async () => {
    expect(await serviceOf({ records: 90, says: 'status 404' }).list(50_000)).toMatchObject({
      received: 0,
      requests: 4,
    })
  })

  it('is empty where the first page comes again, and the page number counts', async () => {
    const service = serviceOf({ records: 90, says: '', isFirstAgain: true })
    for (const page of [1, 2, 3, 4, 5]) await service.list(page)
    expect(await service.list(6)).toMatchObject({ received: 0, end: 'the first page again' })
  })
})

describe('no end is', () => {
  it('the first page that comes for every page, whenever its first record is written', async () => {
    for (let writtenAt = 1; writtenAt < 12; writtenAt++) {
      const service = serviceOf({ records: 90, says: '', isAlwaysFirst: { writtenAt } })
      await service.list(1)
      expect(await service.list(2), `written at request ${writtenAt}`).toMatchObject({ received: 20 })
    }
  })

  const failing = async (service: Service, page = 6, size = 20) =>
    await expect(serviceOf(service).list(page, size)).rejects.toThrow(service.says)

  it.each(statuses)('a whole list that answers %s, as after a lost right', async (says) => {
    if (says === 'null' || says === 'status 204')
      // These say that all went well, like an empty list: the rules of reading doubt that.
      expect(await serviceOf({ records: 90, says, isGone: true }).list(1)).toMatchObject({ received: 0 })
    else await failing({ records: 90, says, isGone: true }, 1)
    await failing({ records: 90, says: 'status 404', isGone: true })
  })

  it.each(['status 400', 'status 404'])(
    'the place from which on %s is said because pages go no further',
    async (says) => {
      await failing({ records: 250, says, limit: 100 })
      await failing({ records: 250, says, limit: 100, tellsTotal: true })
      await failing({ records: 250, says, limit: 20 }, 2)
    },
  )

  it('a page that cannot be served because of a record on it', async () => {
    for (let broken = 41; broken <= 60; broken++)
      await failing({ records: 250, says: 'status 404', broken }, 3)
  })

  it('a single failure: what comes when it is asked for again counts', async () => {
    expect(await serviceOf({ records: 90, says: 'status 404', slipsAt: 1 }).list(5)).toMatchObject({
      received: 10,
    })
  })
})

describe('a first page', () => {
  const service = { records: 90, says: 'status 404', isAlsoFirst: true }

  it('is empty where no record is a 404, if there are records elsewhere', async () => {
    expect(await serviceOf(service).changes({ since: 90n })).toBe(0)
    await expect(serviceOf({ ...service, records: 0 }).changes({})).rejects.toThrow('status 404')
    await expect(serviceOf({ ...service, isGone: true }).changes({ since: 90n })).rejects.toThrow(
      'status 404',
    )
  })

  it('that is answered with a 400 is refused, because of Sorts or for another reason', async () => {
    const refusing = serviceOf({ records: 90, says: 'status 400', isGone: true })
    expect(await refusing.changes({ sorts: 'ascending' })).toEqual({ refused: 400 })
    expect(await refusing.changes({ sorts: 'ascending', page: 2 })).toEqual({ refused: 400 })
    await expect(refusing.changes({ since: 90n })).rejects.toThrow('status 400')
  })
})
