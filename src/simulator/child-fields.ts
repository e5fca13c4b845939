// The generated fields of what hangs on an assignment: notes, objects, products, services, quality controls, attachments.

import { hash, pick, uuidFrom } from './random.ts'
import type { FreshFields, Row } from './row.ts'
import { epochMs, localTime, utcTime } from './timestamps.ts'
import { checkNames, noteTexts, objectNames, productNames, serviceNames } from './words.ts'

const systemFields = (row: Row, bits: number) => ({
  RowVersion: null,
  SysRowVersion: null,
  SysDeleted: row.isDeleted,
  SysCreatedBy: 1 + (bits & 31),
  SysCreatedDateUTC: utcTime(row.createdAtMs, bits),
  SysUpdatedBy: 1 + ((bits >>> 5) & 31),
  SysUpdatedDateUTC: utcTime(row.changedAtMs, bits >>> 3),
})

export const noteExternalId = (id: number): string => `NOTE-${String(id).padStart(7, '0')}`

export function noteFields(seed: number, row: Row, assignmentId: number | null): FreshFields {
  const bits = hash(seed, row.id, 20)
  return {
    AssignmentNoteId: row.id,
    AssignmentNoteIdExt: noteExternalId(row.id),
    UID: uuidFrom(seed, row.id, 21),
    AssignmentId: assignmentId,
    NoteType: bits & 3,
    Text: pick(noteTexts, (bits >>> 2) + row.revision),
    IsInternal: (bits & 4) !== 0,
    RegTime: localTime(row.createdAtMs),
    RegEmployeeId: 1 + ((bits >>> 8) % 40),
    ...systemFields(row, bits),
  }
}

export function objectFields(seed: number, row: Row, assignmentId: number | null): FreshFields {
  const bits = hash(seed, row.id, 30)
  return {
    AssignmentObjectId: row.id,
    UID: uuidFrom(seed, row.id, 31),
    AssignmentId: assignmentId,
    ObjectNumber: `OBJ${String(row.id).padStart(5, '0')}`,
    Name: pick(objectNames, bits),
    SerialNumber: `${(bits >>> 4).toString(36).toUpperCase()}-${bits & 15}`,
    Quantity: 1 + ((bits + row.revision) & 3),
    InstalledDate: localTime(epochMs - (bits % 3_650) * 86_400_000),
    WarrantyMonths: (bits & 8) === 0 ? null : 24,
    ...systemFields(row, bits),
  }
}

export function productFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 40)
  const quantity = 1 + (bits & 7)
  return {
    AssignmentProductId: row.id,
    UID: uuidFrom(seed, row.id, 41),
    AssignmentId: null,
    ProductNumber: `P-${1000 + (bits % 9000)}`,
    ProductName: pick(productNames, bits),
    Quantity: quantity,
    Unit: 'stk',
    UnitPrice: ((bits >>> 3) % 400_000) / 100,
    DiscountPercent: (bits & 3) * 2.5,
    ...systemFields(row, bits),
  }
}

export function serviceFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 50)
  return {
    AssignmentServiceId: row.id,
    UID: uuidFrom(seed, row.id, 51),
    AssignmentId: null,
    ServiceNumber: `S-${100 + (bits % 900)}`,
    ServiceName: pick(serviceNames, bits),
    Hours: (1 + (bits & 31)) / 4,
    HourlyRate: 900 + (bits % 40) * 10,
    EmployeeId: 1 + (bits % 40),
    WorkDate: localTime(row.createdAtMs),
    ...systemFields(row, bits),
  }
}

export function qualityControlFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 60)
  return {
    AssignmentQualityControlId: row.id,
    UID: uuidFrom(seed, row.id, 61),
    AssignmentId: null,
    Name: pick(checkNames, bits),
    IsRequired: (bits & 1) === 0,
    IsApproved: (bits & 2) === 0 ? null : true,
    MeasuredValue: (bits % 1000) / 8,
    Comment: null,
    CheckedTime: localTime(row.changedAtMs),
    ...systemFields(row, bits),
  }
}

export function attachmentFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 70)
  return {
    AttachmentId: row.id,
    AttachmentIdext: null,
    AttachmentIdtext: null,
    AttachmentType: bits & 3,
    Description: 'Photo of the finished work',
    FileName: `IMG_${1000 + (bits % 9000)}.jpg`,
    FileSize: 24,
    FileData: Buffer.from(`picture number ${String(bits % 1_000_000_000).padStart(9, '0')}`).toString(
      'base64',
    ),
    IsOnServer: true,
    RegTime: localTime(row.createdAtMs),
    RegEmployeeId: 1 + (bits % 40),
    RegEmployeeIdext: null,
    OwnerId: null,
    OwnerType: 1,
    RevisionNumber: row.revision,
    UID: uuidFrom(seed, row.id, 71),
    ...systemFields(row, bits),
  }
}
