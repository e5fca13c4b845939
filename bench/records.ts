// Assignments as the bench writes them: 38 fields, about 1.1 KB of JSON, made by formula so that every run writes the same.

import type { Json, JsonObject } from '../src/json/json.ts'
import type { Records } from '../src/streams/record.ts'

export const pageSize = 1_000

const words =
  'delivery customer north terminal gravel pallet inspection urgent morning crane bridge container signed depot'.split(
    ' ',
  )
const word = (seed: number): string => words[seed % words.length] ?? ''
const text = (seed: number, count: number): string =>
  Array.from({ length: count }, (_, index) => word(seed * 7 + index * index + index)).join(' ')
const uuid = (seed: number): string =>
  `${seed.toString(16).padStart(8, '0')}-1c2d-4e3f-8a9b-${(seed * 7919).toString(16).padStart(12, '0')}`
const pad = (number: number): string => String(number).padStart(2, '0')
const time = (seed: number): string =>
  `2024-${pad(1 + (seed % 12))}-${pad(1 + (seed % 28))}T${pad(seed % 24)}:${pad(seed % 60)}:${pad((seed * 7) % 60)}.${1_000_000 + (seed % 8_999_999)}`

function assignment(id: number): JsonObject {
  return {
    AssignmentId: id,
    AssignmentIdExt: `EXT-${id}`,
    AssignmentNumber: 500_000 + id,
    CustomerId: id % 9_973,
    CustomerName: `${text(id, 2)} AS`,
    ContactName: text(id + 1, 2),
    ContactPhone: `+47 ${90_000_000 + (id % 9_999_999)}`,
    AddressLine1: `${text(id + 2, 2)} ${id % 200}`,
    AddressLine2: id % 3 === 0 ? text(id, 2) : null,
    PostalCode: String(1_000 + (id % 8_999)),
    City: word(id),
    CountryCode: 'NO',
    Latitude: 58 + (id % 100_000) / 100_000,
    Longitude: 5 + (id % 70_000) / 70_000,
    EmployeeId: id % 421,
    VehicleId: id % 5 === 0 ? null : id % 97,
    ProjectCode: `P${id % 500}`,
    AssignmentType: id % 7,
    Priority: id % 4,
    Status: id % 9,
    PlannedStart: time(id),
    PlannedEnd: time(id + 3),
    ActualStart: id % 2 === 0 ? time(id + 1) : null,
    ActualEnd: id % 2 === 0 ? time(id + 2) : null,
    EstimatedHours: (id % 80) / 4,
    Price: (id % 100_000) / 100,
    Quantity: id % 50,
    IsInvoiced: id % 3 === 0,
    IsLocked: false,
    Description: text(id + 5, 14),
    InternalNote: id % 4 === 0 ? text(id + 9, 9) : null,
    UID: uuid(id),
    OwnerUID: uuid(id % 900),
    SysDeleted: false,
    SysCreatedBy: id % 60,
    SysCreatedDateUTC: time(id + 11),
    SysUpdatedDateUTC: time(id + 17),
    RowVersion: id,
  }
}

type MutableRecord = { [field: string]: Json }

// Parsed, because a parsed string is another thing to the engine than one that was put together.
const parsedPage = (page: number): MutableRecord[] =>
  JSON.parse(
    JSON.stringify(Array.from({ length: pageSize }, (_, index) => assignment(page * pageSize + index + 1))),
  )

export type Pages = (from: number, to: number, versionBase: number) => Generator<Records>

/**
 * Pages of parsed records, as reading gives them to the mirror: rows `from` up to `to`, row n with version `versionBase + n`. The
 * same `distinct` pages of records are given out again and again, each time with other keys and versions.
 */
export function makePages(distinct: number): Pages {
  const parsed = Array.from({ length: distinct }, (_, page) => parsedPage(page))
  return function* pages(from, to, versionBase) {
    for (let first = from; first < to; first += pageSize) {
      const records = parsed[(first / pageSize) % distinct] ?? []
      const rows = records.map((record, index) => {
        const id = first + index + 1
        record.AssignmentId = id
        record.RowVersion = versionBase + id
        return { key: String(id), version: BigInt(versionBase + id), record }
      })
      yield { rows, rejected: [] }
    }
  }
}
