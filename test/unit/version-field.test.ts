// Which field is the row version is found by asking: upstreams whose names mislead, whose ids look like versions, and which have none.

import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { findVersionField } from '../../src/sync/changes/version-field.ts'

const stream = { keyFields: ['Id'], versionFields: ['SysRowVersion', 'RowVersion'] }
type Fields = Readonly<Record<string, Json>>

/** Answers to one field, in the order of its records, at most `cap` of them. */
function upstream(
  records: readonly Fields[],
  answersTo: (record: Fields) => bigint,
  { cap = 100, isInclusive = false } = {},
) {
  const asked: bigint[] = []
  const ask = async (since: bigint) => {
    asked.push(since)
    return records
      .filter((record) => (isInclusive ? answersTo(record) >= since : answersTo(record) > since))
      .slice(0, cap)
  }
  return { ask, asked }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const base64 = (version: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(version))
  return bytes.toString('base64')
}

describe('the version field', () => {
  it('is tested with questions that do not wait for each other', async () => {
    const records = numbers(300).map((id) => ({ id, sysRowVersion: 1_000 + id }))
    const { ask, asked } = upstream(records, (record) => BigInt(Number(record.sysRowVersion)))
    const askedByThen: number[] = []
    const askSlowly = async (since: bigint) => {
      const answer = ask(since)
      await new Promise(setImmediate)
      askedByThen.push(asked.length)
      return await answer
    }
    expect((await findVersionField(askSlowly, stream)).kind).toBe('found')
    expect(askedByThen).toEqual([1, 4, 4, 4])
  })

  it.each([true, false])(
    'is no counter that is one apart from it everywhere (included: %s)',
    async (isInclusive) => {
      const versions = [7, 11, 11, 14, 14, 17, 17, 20]
      const counts = [6, 11, 12, 15, 14, 17, 18, 19]
      // One record lacks its version, and none its count.
      const records = versions.map((version, index) => ({
        Id: index + 1,
        RowVersion: index === 5 ? null : version,
        Counter: counts[index] ?? 0,
      }))
      const answersTo = ({ Id }: Fields) => BigInt(versions[Number(Id) - 1] ?? 0)
      const { ask } = upstream(records, answersTo, { isInclusive })
      expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'RowVersion' })
    },
  )

  it('is the one with a fitting name where a few records lack it, and short answers cannot tell it from a counter', async () => {
    const records = numbers(200).map((id) => ({
      Id: id,
      RowVersion: id % 5 === 0 ? null : 2 * id,
      Counter: 2 * id + 20,
    }))
    const { ask } = upstream(records, ({ Id }) => BigInt(2 * Number(Id)), { cap: 8 })
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'RowVersion' })
  })

  it('is the one that answers, not the one with the likelier name', async () => {
    const records = numbers(300).map((id) => ({
      assignmentId: id,
      rowVersion: id % 40 === 0 ? id : null,
      sysRowVersion: 2_000 + ((id * 7919) % 997),
    }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.sysRowVersion)))
    expect(await findVersionField(ask, { ...stream, versionFields: ['RowVersion'] })).toMatchObject({
      kind: 'found',
      field: 'sysRowVersion',
    })
  })

  it('is not a counter that has a fitting name and answers to nothing', async () => {
    const records = numbers(300).map((id) => ({
      id,
      rowVersion: 1 + (id % 9),
      changeNumber: 50_000 + ((id * 31) % 887),
    }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.changeNumber)))
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'changeNumber' })
  })

  it('is not an id that is as high as versions are, also where both rise together', async () => {
    const records = numbers(300).map((id) => ({ id: 10_000 + id, stamp: 10_500 + id }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.stamp)))
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'stamp' })
  })

  it('is not a number that is above the version in every record but the last', async () => {
    const stamps = numbers(90).map((id) => id * 10)
    const records = stamps.map((stamp) => ({ rowVersion: Math.round((stamp * 900 ** 2) ** (1 / 3)), stamp }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.stamp)))
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'stamp' })
  })

  it.each([
    {
      place: 'above',
      stamps: [37, 43, 40, 44, 48, 51, 52, 55, 60],
      versions: [36, 39, 40, 42, 46, 49, 51, 55, 60],
    },
    {
      place: 'below',
      stamps: [34, 40, 46, 50, 53, 54, 62, 63, 68],
      versions: [34, 40, 46, 51, 54, 58, 63, 67, 72],
    },
  ])(
    'is not a counter that runs a little $place it, where a record has no version',
    async ({ stamps, versions }) => {
      const records = stamps.map((stamp, index) => ({
        id: index + 1,
        stamp,
        rowVersion: index === 1 ? null : (versions[index] ?? null),
      }))
      const { ask } = upstream(records, ({ id }) => BigInt(versions[Number(id) - 1] ?? 0))
      expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'rowVersion' })
    },
  )

  it('is not a number that rises whenever it is shown', async () => {
    let shown = 0
    const versions = numbers(20).map((id) => id * 3)
    const { ask } = upstream(
      numbers(20).map((id) => ({ id })),
      ({ id }) => BigInt(versions[Number(id) - 1] ?? 0),
    )
    const counting = async (since: bigint) =>
      (await ask(since)).map((record) => ({
        ...record,
        visits: ++shown,
        sysRowVersion: record.id === 4 ? null : Number(record.id) * 3,
      }))
    expect(await findVersionField(counting, stream)).toMatchObject({ kind: 'found', field: 'sysRowVersion' })
  })

  it('is not a number that rises whenever it is shown, where the answers hold few records', async () => {
    let shown = 0
    const versions = [1, 1, 3, 4]
    const { ask } = upstream(
      numbers(4).map((id) => ({ id, sysRowVersion: id < 3 ? null : (versions[id - 1] ?? 0) })),
      ({ id }) => BigInt(versions[Number(id) - 1] ?? 0),
    )
    const counting = async (since: bigint) =>
      (await ask(since)).map((record) => ({ ...record, visits: ++shown }))
    expect(await findVersionField(counting, stream)).toMatchObject({ kind: 'none' })
  })

  // Nothing but the name tells it from a number that grows with each answer.
  it('is the one with a fitting name where all records change between two answers', async () => {
    let writes = 0
    const records = numbers(4).map((id) => ({ Id: id, RowVersion: 100 * id, Text: ++writes }))
    const { ask } = upstream(records, ({ RowVersion }) => BigInt(Number(RowVersion)))
    const changing = async (since: bigint) => {
      const answer = (await ask(since)).map((record) => ({ ...record }))
      for (const record of records) Object.assign(record, { RowVersion: 100 * ++writes, Text: writes })
      return answer
    }
    expect(await findVersionField(changing, stream)).toMatchObject({ kind: 'found', field: 'RowVersion' })
  })

  it('is no number with a fitting name that changes where nothing else does', async () => {
    let shown = 0
    const records = numbers(20).map((id) => ({ Id: id, Stamp: 100 + 3 * id }))
    const { ask } = upstream(records, ({ Stamp }) => BigInt(Number(Stamp)))
    const counting = async (since: bigint) =>
      (await ask(since)).map((record) => ({ ...record, RowVersion: ++shown }))
    expect(await findVersionField(counting, stream)).toMatchObject({ kind: 'found', field: 'Stamp' })
  })

  it.each([
    ['a string of digits', (version: number) => String(9_007_199_254_740_993n + BigInt(version))],
    ['base64', base64],
    ['a number', (version: number) => version],
  ])('is read as %s', async (_name, spell) => {
    const spelt = (version: number) => {
      const value = spell(version)
      return typeof value === 'string' && value.endsWith('=')
        ? Buffer.from(value, 'base64').readBigUInt64BE()
        : BigInt(value)
    }
    const records = numbers(50).map((id) => ({ id, version: spell(id * 3) }))
    const { ask } = upstream(records, (record) => spelt(Number(record.id) * 3))
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'version' })
  })

  it.each([true, false])('is found whether what is asked is included (%s)', async (isInclusive) => {
    const { ask } = upstream([{ id: 1, rowVersion: 41 }], (record) => BigInt(Number(record.rowVersion)), {
      isInclusive,
    })
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'rowVersion' })
  })

  // A replica that lags answers one question from an older state.
  it('is not another number of the only record, because the right one seemed not to answer once', async () => {
    const { ask } = upstream([{ id: 40, rowVersion: 41 }], (record) => BigInt(Number(record.rowVersion)))
    const lacking = (isLacking: (question: number) => boolean) => {
      let questions = 0
      return findVersionField(async (since) => (isLacking(++questions) ? [] : await ask(since)), stream)
    }
    expect(await lacking((question) => question === 3)).toMatchObject({ kind: 'found', field: 'rowVersion' })
    expect(await lacking((question) => question >= 3)).toMatchObject({ kind: 'none' })
    const shown = upstream([{ id: 1, mark: 41 }], (record) => BigInt(Number(record.mark)))
    expect(await findVersionField(shown.ask, stream, 'Mark')).toMatchObject({
      kind: 'found',
      field: 'mark',
    })
  })

  it('is the one with a fitting name though a record was written with a lower version meanwhile', async () => {
    const rows = [16, 24, 25, 26, 31, 33].map((rowVersion, index) => ({
      ...{ id: index + 1, rowVersion, sequence: 100 + index },
    }))
    let questions = 0
    const ask = async (since: bigint) => {
      const last = rows[5]
      if (++questions === 2 && last) Object.assign(last, { rowVersion: 27, sequence: 106 })
      return rows.filter(({ rowVersion }) => BigInt(rowVersion) > since)
    }
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'rowVersion' })
  })

  it('is the one with a fitting name though the records that it was tested by were deleted meanwhile', async () => {
    const row = (id: number, rowVersion: number, size: number) => ({ id, rowVersion, size })
    const first = [row(1, 1, 1), row(2, 2, 2), row(3, 12, 4)]
    const changed = [row(1, 4, 9), row(2, 5, 10), row(3, 3, 7)]
    const deleted = [row(3, 3, 7)]
    const moments = [first, changed, changed, deleted, deleted]
    let questions = 0
    const ask = async (since: bigint) =>
      (moments[questions++] ?? [row(5, 16, 13)]).filter(({ rowVersion }) => BigInt(rowVersion) > since)
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'found', field: 'rowVersion' })
  })

  it('is not a field that was refuted because it is tested again with an answer of one record', async () => {
    const records = numbers(40).map((id) => ({
      ...{ Id: id, SysRowVersion: id === 1 ? 2_001 : 100 + ((id * 7) % 40), RowVersion: 2_000 + id },
    }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.RowVersion)))
    let asked = 0
    const askShortly = async (since: bigint) =>
      (await ask(since)).slice(0, since === 0n && ++asked === 2 ? 1 : 100)
    expect(await findVersionField(askShortly, stream)).toMatchObject({ kind: 'found', field: 'RowVersion' })
    expect(asked).toBe(2)
  })

  it('is not the key, however well that answers: no change of a record changes it', async () => {
    const records = numbers(40).map((id) => ({ id, stamp: id % 2 === 0 ? null : id }))
    const { ask } = upstream(records, (record) => BigInt(Number(record.id)))
    expect(await findVersionField(ask, stream)).toMatchObject({ kind: 'none' })
    expect(await findVersionField(ask, stream, 'id')).toMatchObject({ kind: 'found', field: 'id' })
  })

  it('is unknown while there are no records', async () => {
    const { ask, asked } = upstream([], () => 0n)
    expect(await findVersionField(ask, stream)).toEqual({ kind: 'empty' })
    expect(asked).toEqual([0n])
  })

  it('is told to be missing, with what was seen, where no field answers', async () => {
    const records = numbers(100).map((id) => ({ id, rowVersion: id, name: `n${id}` }))
    // It knows when each changed, and does not serve that.
    const { ask, asked } = upstream(records, (record) => 1_000_000n + BigInt(Number(record.id)))
    const found = await findVersionField(ask, stream)
    expect(found).toMatchObject({ kind: 'none' })
    expect(found.kind === 'none' && found.evidence).toContain('rowVersion (neworchanged/')
    expect(asked.length).toBeLessThan(10)
  })
})
