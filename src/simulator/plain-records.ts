// The generated fields of what hangs on an assignment: notes, objects, products, services, quality controls, attachments.

import { employeeCount, personName } from './plain-assignments.ts'
import { hash, pick, uuidFrom } from './random.ts'
import { epochMs, type FreshFields, type Row } from './row.ts'
import { localTime, utcTime } from './times.ts'
import {
  checkNames,
  cities,
  companies,
  noteTexts,
  objectNames,
  productNames,
  serviceNames,
  streets,
  vehicleModels,
} from './vocabulary.ts'

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

// The generated fields of what does not hang on an assignment: vehicles, customers, employees, webhooks.
/** A vehicle drives a closed curve around its town; each revision is one step along it. */
export function trackerFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 80)
  const home = pick(cities, bits)
  const angle = (bits & 255) / 40 + row.revision / 12
  const isParked = (bits + row.revision) % 9 === 0
  return {
    TrackerObjectId: row.id,
    UID: uuidFrom(seed, row.id, 81),
    Name: `Van ${row.id}`,
    RegistrationNumber: `EL ${10_000 + (bits % 90_000)}`,
    Model: pick(vehicleModels, bits >>> 3),
    DriverEmployeeId: 1 + (bits % employeeCount),
    Latitude: Math.round((home.latitude + Math.sin(angle) / 20) * 1e6) / 1e6,
    Longitude: Math.round((home.longitude + Math.cos(angle * 2) / 15) * 1e6) / 1e6,
    Speed: isParked ? 0 : 20 + (((bits >>> 8) + row.revision * 7) % 60),
    Heading: Math.round(angle * 57.2957795) % 360,
    IgnitionOn: !isParked,
    Odometer: 10_000 + (bits % 200_000) + row.revision / 10,
    BatteryVoltage: 12.4 + (bits & 7) / 10,
    LastPositionTimeUTC: utcTime(row.changedAtMs, bits),
    IsActive: true,
  }
}

export function customerFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 5)
  const place = pick(cities, bits >>> 2)
  return {
    CustomerId: row.id,
    CustomerIdExt: `C${String(row.id).padStart(5, '0')}`,
    UID: uuidFrom(seed, row.id, 91),
    Name: pick(companies, bits),
    ContactName: personName(bits),
    Phone: `+47 ${String(bits % 100_000_000).padStart(8, '0')}`,
    Email: `kunde${row.id}@example.com`,
    Address: `${pick(streets, bits >>> 5)} ${1 + (bits & 127)}`,
    ZipCode: place.zipCode,
    City: place.city,
    IsCompany: true,
    RowVersion: null,
    SysRowVersion: null,
  }
}

export function employeeFields(seed: number, row: Row): FreshFields {
  const bits = hash(seed, row.id, 100)
  return {
    EmployeeId: row.id,
    EmployeeIdExt: `E${String(row.id).padStart(4, '0')}`,
    UID: uuidFrom(seed, row.id, 101),
    Name: personName(bits),
    Phone: `+47 ${String(bits % 100_000_000).padStart(8, '0')}`,
    Email: `fitter${row.id}@example.com`,
    DepartmentId: 1 + (bits & 3),
    IsActive: true,
    RowVersion: null,
    SysRowVersion: null,
  }
}

export const webhookEvents = [
  'AssignmentCreated',
  'AssignmentChanged',
  'AssignmentDeleted',
  'AssignmentNoteCreated',
  'AssignmentNoteChanged',
  'AssignmentNoteDeleted',
] as const

export function webhookDefinitionFields(seed: number, row: Row): FreshFields {
  return {
    WebhookDefinitionId: row.id,
    UID: uuidFrom(seed, row.id, 111),
    Name: webhookEvents[row.id - 1] ?? `Event ${row.id}`,
    Description: 'Sent after the record was written',
    ResourceName: row.id <= 3 ? 'TblAssignment' : 'TblAssignmentNote',
    PayloadVersion: 1,
    IsEnabled: true,
    SysCreatedDateUTC: utcTime(row.createdAtMs),
  }
}

export const subscriptionExternalId = (seed: number, id: number): string => uuidFrom(seed, id, 120)

export function webhookSubscriptionFields(seed: number, row: Row): FreshFields {
  return {
    WebhookSubscriptionId: subscriptionExternalId(seed, row.id),
    WebhookDefinitionId: 1,
    Name: `Subscription ${row.id}`,
    CallbackUrl: null,
    IsActive: true,
    Secret: null,
    ContentType: 'application/json',
    MaxRetries: 0,
    LastDeliveryDateUTC: null,
    SysCreatedBy: 1,
    SysCreatedDateUTC: utcTime(row.createdAtMs),
    SysUpdatedDateUTC: utcTime(row.changedAtMs),
  }
}
