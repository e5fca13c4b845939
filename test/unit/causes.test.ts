// Why a row differs from its record: each cause by what the two look like (P16).

import { describe, expect, it } from 'vitest'
import { causeOf, twinsIn } from '../../src/sync/changes/causes.ts'
import type { Difference } from '../../src/sync/ports/audits.ts'

const position = 100n
const one = (changes: Partial<Difference>): Difference => ({
  key: '1',
  kind: 'content',
  columns: ['title'],
  version: 50n,
  mirrored: 50n,
  record: 'a',
  isLocal: false,
  isBack: false,
  isRewound: false,
  ...changes,
})

describe('the cause of a difference (P16)', () => {
  it.each<[string, Partial<Difference>, ReturnType<typeof causeOf>]>([
    ['a row that is missing', { kind: 'missing', columns: [], mirrored: null }, 'late'],
    ['a lower version here', { kind: 'stale', mirrored: 40n }, 'late'],
    ['a version above the position', { kind: 'stale', version: 101n }, null],
    ['a row that is missing and was not read yet', { kind: 'missing', version: 101n, mirrored: null }, null],
    ['a lower version there than was read above the position', { mirrored: 120n }, 'fell back'],
    ['a higher version above the position', { version: 120n, mirrored: 130n }, null],
    ['the same version', {}, 'silent'],
    ['another hash and no other value', { columns: [] }, null],
    ['a lower version there', { version: 40n }, 'fell back'],
    ['other content after a rewind', { isRewound: true }, 'restored'],
    ['a lower version there after a rewind', { version: 40n, mirrored: 130n, isRewound: true }, 'restored'],
    ['the hash of this record', { isLocal: true }, 'local damage'],
    ['the hash of this record, and a forged version', { isLocal: true, mirrored: 999n }, 'local damage'],
    ['a mark of deletion that others made', { isLocal: true, columns: ['_deleted_at'] }, 'local damage'],
    ['marked as gone', { isLocal: true, isBack: true, columns: ['_deleted_at'] }, 'undeleted'],
    ['marked as gone, and another version', { kind: 'stale', isBack: true, mirrored: 40n }, 'undeleted'],
    ['no record any more', { kind: 'extra', columns: [], version: null, mirrored: null }, 'deleted'],
    ['a stream without versions', { kind: 'stale', version: null, mirrored: null }, null],
  ])('%s: %#', (_, changes, cause) => {
    expect(causeOf(one(changes), position)).toBe(cause)
  })

  it('is no twin where one record is shown twice', () => {
    const row = (key: string, title: string) => ({ key, version: 1n, record: { id: key, title } })
    expect([...twinsIn([row('1', 'a'), row('2', 'b'), row('1', 'a')])]).toEqual([])
    expect([...twinsIn([row('1', 'a'), row('2', 'b'), row('1', 'c'), row('2', 'b')])]).toEqual(['1'])
  })
})
