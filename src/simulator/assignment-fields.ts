// The generated fields of an assignment: about 1.1 KB that follow from seed, id and revision alone, so that a million
// of them need no memory until somebody asks.

import { hash, pick, uuidFrom } from './random.ts'
import type { Fields, Row } from './row.ts'
import { epochMs, localTime, utcTime } from './timestamps.ts'
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
} from './words.ts'

export const customerCount = 200
export const employeeCount = 40

const digits = (number: number, length: number) => String(number).padStart(length, '0')

export const assignmentExternalId = (id: number): string => `WO-${digits(id, 7)}`
export const customerOf = (seed: number, assignmentId: number): number =>
  1 + (hash(seed, assignmentId, 3) % customerCount)
export const employeeOf = (seed: number, assignmentId: number): number =>
  1 + (hash(seed, assignmentId, 4) % employeeCount)
export const personName = (bits: number): string =>
  `${pick(givenNames, bits & 0xff)} ${pick(familyNames, (bits >>> 8) & 0xff)}`

export function assignmentFields(seed: number, row: Row): Fields {
  const { id, revision } = row
  const bits = hash(seed, id, 1)
  const more = hash(seed, id, 2)
  const now = hash(seed, id, 16 + revision)
  const customerId = customerOf(seed, id)
  const customerBits = hash(seed, customerId, 5)
  const place = pick(cities, bits % 97)
  const status = (revision + (now & 1)) % statuses.length
  const plannedMs = epochMs + (more % 31_536_000) * 1000
  const isDone = status >= 4
  const contact = personName(customerBits)
  return {
    AssignmentId: id,
    AssignmentIdExt: assignmentExternalId(id),
    UID: uuidFrom(seed, id, 6),
    AssignmentNumber: `2025-${digits(id, 6)}`,
    AssignmentTypeId: 1 + (bits & 3),
    AssignmentTypeName: assignmentTypes[bits & 3],
    Status: status,
    StatusName: statuses[status],
    Priority: (bits >>> 4) & 3,
    Subject: pick(subjects, bits >>> 6),
    Description: pick(details, (more >>> 3) + revision),
    CustomerId: customerId,
    CustomerIdExt: `C${digits(customerId, 5)}`,
    CustomerName: pick(companies, customerBits),
    ContactName: contact,
    ContactPhone: `+47 ${digits(customerBits % 100_000_000, 8)}`,
    ContactEmail: `kunde${customerId}@example.com`,
    Address: `${pick(streets, bits >>> 8)} ${1 + (more & 127)}`,
    ZipCode: place.zipCode,
    City: place.city,
    Latitude: Math.round((place.latitude + ((more >>> 7) & 0xffff) / 1e6) * 1e6) / 1e6,
    Longitude: Math.round((place.longitude + ((bits >>> 9) & 0xffff) / 1e6) * 1e6) / 1e6,
    ResponsibleEmployeeId: employeeOf(seed, id),
    PlannedStart: localTime(plannedMs),
    PlannedEnd: localTime(plannedMs + 7_200_000),
    ActualStart: status >= 2 ? localTime(plannedMs + (now % 3_600_000), now) : null,
    ActualEnd: isDone ? localTime(plannedMs + 7_000_000 + (now % 900_000), more) : null,
    EstimatedHours: ((bits >>> 12) % 64) / 4,
    Price: ((now >>> 2) % 5_000_000) / 100,
    IsInvoiced: status === 5,
    RequiresSignature: (bits & 64) !== 0,
    ExternalReference: null,
    RowVersion: null,
    SysRowVersion: null,
    SysDeleted: row.isDeleted,
    SysCreatedBy: 1 + (more % employeeCount),
    SysCreatedDateUTC: utcTime(row.createdAtMs, bits),
    SysUpdatedBy: 1 + (now % employeeCount),
    SysUpdatedDateUTC: utcTime(row.changedAtMs, now),
  }
}
