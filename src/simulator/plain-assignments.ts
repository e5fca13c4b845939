// The generated fields of an assignment: about 1.1 KB that follow from seed, id and revision alone, so that a million
// of them need no memory until somebody asks. What makes a record its own is worked out each time; the description of
// the work is one of some thousands, made once.

import { hash, pick, uuidFrom } from './random.ts'
import { epochMs, type Fields, type FreshFields, type Row } from './row.ts'
import { localTime, utcTime } from './times.ts'
import {
  assignmentTypes,
  cities,
  companies,
  details,
  familyNames,
  givenNames,
  statuses,
  streets,
  subjects,
} from './vocabulary.ts'

export const customerCount = 200
export const employeeCount = 40
const workCount = 4_096

const digits = (number: number, length: number) => String(number).padStart(length, '0')
const rounded = (degrees: number) => Math.round(degrees * 1e6) / 1e6

export const assignmentExternalId = (id: number): string => `WO-${digits(id, 7)}`
export const personName = (bits: number): string =>
  `${pick(givenNames, bits & 0xff)} ${pick(familyNames, (bits >>> 8) & 0xff)}`

/** What a record is made of: fields of its own, and fields that many records share as one and the same object. */
export type Parts = { readonly own: FreshFields; readonly shared: Fields | null }

export function assignmentParts(seed: number): (row: Row) => Parts {
  const works = new Map<number, Fields>()
  return (row) => {
    const bits = hash(seed, row.id, 1)
    const workId = (bits % workCount) * statuses.length + ((bits + row.revision) % statuses.length)
    let work = works.get(workId)
    if (!work) {
      work = workFields(seed, workId)
      works.set(workId, work)
    }
    return { own: ownFields(seed, row, bits), shared: work }
  }
}

const ownFields = (seed: number, row: Row, bits: number) => ({
  AssignmentId: row.id,
  AssignmentIdExt: assignmentExternalId(row.id),
  UID: uuidFrom(seed, row.id, 6),
  AssignmentNumber: `2025-${digits(row.id, 6)}`,
  RowVersion: null,
  SysRowVersion: null,
  SysDeleted: row.isDeleted,
  SysCreatedBy: 1 + (bits % employeeCount),
  SysCreatedDateUTC: utcTime(row.createdAtMs, bits),
  SysUpdatedBy: 1 + ((bits + row.revision) % employeeCount),
  SysUpdatedDateUTC: utcTime(row.changedAtMs, bits >>> 3),
})

function workFields(seed: number, workId: number): Fields {
  const status = workId % statuses.length
  const bits = hash(seed, workId - status, 2)
  const more = hash(seed, workId - status, 3)
  const customerId = 1 + (more % customerCount)
  const customerBits = hash(seed, customerId, 5)
  const place = pick(cities, bits % 97)
  const plannedMs = epochMs + (more % 17_520) * 1_800_000
  return {
    AssignmentTypeId: 1 + (bits & 3),
    AssignmentTypeName: assignmentTypes[bits & 3],
    Status: status,
    StatusName: statuses[status],
    Priority: (bits >>> 4) & 3,
    Subject: pick(subjects, bits >>> 6),
    Description: pick(details, (more >>> 3) + status),
    CustomerId: customerId,
    CustomerIdExt: `C${digits(customerId, 5)}`,
    CustomerName: pick(companies, customerBits),
    ContactName: personName(customerBits),
    ContactPhone: `+47 ${digits(customerBits % 100_000_000, 8)}`,
    ContactEmail: `kunde${customerId}@example.com`,
    Address: `${pick(streets, bits >>> 8)} ${1 + (more & 127)}`,
    ZipCode: place.zipCode,
    City: place.city,
    Latitude: rounded(place.latitude + ((more >>> 7) & 0xffff) / 1e6),
    Longitude: rounded(place.longitude + ((bits >>> 9) & 0xffff) / 1e6),
    ResponsibleEmployeeId: 1 + (bits % employeeCount),
    PlannedStart: localTime(plannedMs),
    PlannedEnd: localTime(plannedMs + 7_200_000),
    ActualStart: status >= 2 ? localTime(plannedMs + (more % 3_600_000), more) : null,
    ActualEnd: status >= 4 ? localTime(plannedMs + 7_000_000 + (bits % 900_000), bits) : null,
    EstimatedHours: ((bits >>> 12) % 64) / 4,
    Price: (more % 5_000_000) / 100,
    IsInvoiced: status === 5,
    RequiresSignature: (bits & 64) !== 0,
    ExternalReference: null,
  }
}
