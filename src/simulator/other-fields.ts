// The generated fields of what does not hang on an assignment: vehicles, customers, employees, webhooks.

import { employeeCount, personName } from './assignment-fields.ts'
import { hash, pick, uuidFrom } from './random.ts'
import type { FreshFields, Row } from './row.ts'
import { utcTime } from './timestamps.ts'
import { cities, companies, streets, vehicleModels } from './words.ts'

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
