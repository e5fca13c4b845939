// The generated fields of the recorded service's records. They follow from seed, id and revision alone, so that a
// million of them need no memory until somebody asks. Dates, decimals and nulls look as the service writes them.

import { customerCount, employeeCount, type Parts } from './plain-assignments.ts'
import { hash, pick, uuidFrom } from './random.ts'
import {
  checkpoints,
  companies,
  contacts,
  endings,
  firstNames,
  groups,
  lastNames,
  objects,
  places,
  products,
  services,
  tasks,
  towns,
  units,
} from './recorded-vocabulary.ts'
import { epochMs, type FreshFields, type Row } from './row.ts'
import { localTime, storedLocal, storedUtc } from './times.ts'

export type RecordContext = {
  readonly seed: number
  readonly timeZone: string
  /** The assignment that a generated note or object belongs to. */
  readonly assignmentOf: (id: number) => number | null
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Decimals come from the database with four digits behind the point, zeros included. */
const decimal = (value: number): unknown => JSON.rawJSON(value.toFixed(4))

/** A value in some of the records, null in the others. */
const sometimes = <T>(bits: number, oneIn: number, value: () => T): T | null =>
  bits % oneIn === 0 ? value() : null
const mostly = <T>(bits: number, oneIn: number, value: () => T): T | null =>
  bits % oneIn === 0 ? null : value()

const yearOf = (row: Row) => localTime(row.createdAtMs).slice(0, 4)

export const recordedAssignmentId = (seed: number, id: number, createdAtMs: number): string | null =>
  hash(seed, id, 11) % 7 === 0
    ? null
    : `ORD-${localTime(createdAtMs).slice(0, 4)}-${String(id).padStart(6, '0')}`

function systemFields(row: Row, { seed }: RecordContext, salt: number) {
  const bits = hash(seed, row.id, salt)
  return {
    UID: uuidFrom(seed, row.id, salt),
    SysRowVersion: null,
    RowVersion: sometimes(bits, 23, () => 1 + (bits % 90_000)),
    SysDeleted: row.isDeleted,
    SysCreatedBy: 1 + (bits % 20),
    SysCreatedDateUTC: storedUtc(row.createdAtMs),
    SysUpdatedBy: 1 + ((bits + row.revision) % 20),
    SysUpdatedDateUTC: storedUtc(row.changedAtMs),
  }
}

const sentence = (bits: number) =>
  `${pick(tasks, bits)}${pick(places, bits >>> 5)}${pick(endings, bits >>> 9)}`

function longText(bits: number): string {
  if ((bits & 3) === 0)
    return `<p>${sentence(bits >>> 2)}</p><ul><li>${sentence(bits >>> 7)}</li><li>Ring kunden "før" ankomst &amp; ta bilder</li></ul>`
  if ((bits & 3) === 1)
    return `${sentence(bits >>> 2)}\r\n${sentence(bits >>> 7)}\r\n\r\n\t- ${sentence(bits >>> 4)}`
  return sentence(bits >>> 2)
}

export const recordedAssignment =
  (context: RecordContext) =>
  (row: Row): Parts => {
    const { seed } = context
    const bits = hash(seed, row.id, 1)
    return {
      own: {
        AssignmentId: row.id,
        AssignmentIdext: recordedAssignmentId(seed, row.id, row.createdAtMs),
        AssignmentNumber: String(100_000 + row.id),
        AssignmentName: sentence(bits + row.revision),
        Description: mostly(bits >>> 3, 5, () => longText(hash(seed, row.id, 2))),
        InternalNote: sometimes(bits >>> 6, 11, () => `Nøkkel ${bits % 100}`),
        ...whoAndWhere(row, context, bits),
        ...whenAndHowMuch(row, context, hash(seed, row.id, 3)),
        ...systemFields(row, context, 6),
      },
      shared: null,
    }
  }

function whoAndWhere(row: Row, { seed }: RecordContext, bits: number) {
  const customerId = mostly(bits, 9, () => 1 + (bits % customerCount))
  const employeeId = mostly(bits >>> 4, 6, () => 1 + ((bits >>> 8) % employeeCount))
  const projectId = sometimes(bits >>> 2, 5, () => 1 + (bits % 30))
  return {
    AssignmentStatusId: 1 + ((bits + row.revision) % 9),
    AssignmentTypeId: 1 + ((bits >>> 3) % 5),
    AssignmentPriority: sometimes(bits >>> 5, 2, () => 1 + (bits & 3)),
    CustomerId: customerId,
    CustomerIdext: customerId && `K${10_000 + customerId}`,
    CustomerName: customerId && customerName(seed, customerId),
    EmployeeId: employeeId,
    EmployeeIdext: employeeId && `E${employeeId}`,
    DepartmentId: employeeId && 1 + (employeeId % 6),
    ProjectId: projectId,
    ProjectIdext: projectId && `P${projectId}`,
    ParentAssignmentId: null,
    Address1: `Storgata ${1 + (row.id % 120)}${'ABCD'[bits & 3]}`,
    Address2: null,
    ZipCode: String(bits % 9_999).padStart(4, '0'),
    City: mostly(bits >>> 7, 13, () => pick(towns, bits >>> 6)),
    CountryCode: (bits & 7) === 0 ? 'SE' : 'NO',
    ContactName: sometimes(bits, 2, () => pick(contacts, bits >>> 5)),
    ContactPhone: sometimes(bits >>> 1, 2, () => `+47 ${40_000_000 + row.id}`),
    ContactEmail: sometimes(bits >>> 2, 3, () => `kontakt${row.id}@kunde.example`),
    Latitude: mostly(bits >>> 3, 4, () => 58 + (bits % 1_000_003) / 83_000.7),
    Longitude: mostly(bits >>> 3, 4, () => 5 + (bits % 999_983) / 51_000.3),
  }
}

const customerName = (seed: number, id: number) => `${pick(companies, hash(seed, id, 5))} ${id}`

function whenAndHowMuch(row: Row, { timeZone }: RecordContext, bits: number) {
  const startMs = Math.floor(row.createdAtMs / hourMs) * hourMs + (1 + (bits % 30)) * dayMs
  const status = (bits + row.revision) % 4
  const isPlanned = (bits >>> 3) % 10 > 0
  const local = (timeMs: number) => storedLocal(timeMs, timeZone)
  const isDone = status === 3
  return {
    PlannedStart: isPlanned ? local(startMs) : null,
    PlannedEnd: isPlanned ? local(startMs + (4 + (bits % 24)) * 900_000) : null,
    ActualStart: status >= 2 ? local(startMs + 432_345) : null,
    ActualEnd: isDone ? local(startMs + 6 * hourMs + (bits % 60) * 15_000) : null,
    DueDate: sometimes(bits, 3, () => local(Math.floor(startMs / dayMs) * dayMs + 14 * dayMs)),
    RegTime: local(row.createdAtMs),
    EstimatedHours: sometimes(bits >>> 2, 2, () => decimal((1 + (bits % 30)) / 4)),
    Price: sometimes(bits >>> 4, 2, () => decimal((bits % 3_000_000) / 100)),
    DiscountPercent: sometimes(bits >>> 6, 8, () => decimal(12.5)),
    FixedPrice: sometimes(bits >>> 5, 3, () => (bits & 1) === 0),
    IsInvoiced: isDone || null,
    InvoiceNumber: isDone ? 3_000_000_000 + row.id : null,
    ZoneNumber: sometimes(bits >>> 8, 4, () => bits % 12),
    Signature: null,
    SignedBy: null,
    SignedTimeUTC: isDone && (bits & 1) === 0 ? storedUtc(startMs + 7 * hourMs) : null,
    Color: sometimes(bits, 4, () => `#${(bits % 0xff_ff_ff).toString(16).padStart(6, '0')}`),
    RecurrenceRule: null,
    ExternalSystem: null,
    ExternalReference: sometimes(bits >>> 3, 4, () => `REF ${row.id}`),
    CustomField1: null,
    CustomField2: null,
    CustomField3: sometimes(bits >>> 1, 9, () => decimal((bits % 1000) / 10_000)),
    UpdateInfoExt: sometimes(bits >>> 2, 3, () => bits & 1),
    Processed: sometimes(bits >>> 7, 2, () => true),
  }
}

export function recordedNote(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 20)
  const employeeId = 1 + (bits % employeeCount)
  return {
    AssignmentNoteId: row.id,
    AssignmentNoteIdext: recordedNoteId(row.id),
    AssignmentId: context.assignmentOf(row.id),
    AssignmentIdext: null,
    NoteTypeId: 1 + (bits & 3),
    Title: sometimes(bits >>> 3, 4, () => sentence(bits >>> 4)),
    NoteText: longText(bits + row.revision),
    NoteDate: storedLocal(row.createdAtMs + (bits % 100) * 7_777_777, context.timeZone),
    EmployeeId: employeeId,
    EmployeeIdext: `E${employeeId}`,
    IsInternal: sometimes(bits, 2, () => true),
    ShowOnReport: sometimes(bits, 2, () => (bits & 4) === 0),
    SortOrder: sometimes(bits >>> 2, 2, () => row.id % 30_000),
    UpdateInfoExt: sometimes(bits >>> 1, 2, () => 0),
    Processed: sometimes(bits >>> 1, 2, () => true),
    ...systemFields(row, context, 21),
    Employee: null,
  }
}

export const recordedNoteId = (id: number): string | null => (id % 3 === 0 ? null : `N-${id}`)

export function recordedObject(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 30)
  return {
    AssignmentObjectId: row.id,
    AssignmentObjectIdext: sometimes(bits, 3, () => `AO${row.id}`),
    AssignmentId: context.assignmentOf(row.id),
    ObjectId: 1 + (bits % 5_000),
    ObjectIdext: `OBJ${bits % 5_000}`,
    ObjectName: pick(objects, bits >>> 2),
    ObjectTypeId: 1 + (bits & 7),
    SerialNumber: uuidFrom(context.seed, row.id, 32).slice(24).toUpperCase(),
    Quantity: decimal(1 + ((bits + row.revision) & 3)),
    IsMainObject: (bits & 1) === 0,
    InstalledDate: storedUtc(Math.floor((epochMs - (bits % 2_000) * dayMs) / dayMs) * dayMs),
    ...systemFields(row, context, 31),
  }
}

export function recordedProduct(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 40)
  return {
    AssignmentProductId: row.id,
    AssignmentProductIdext: null,
    AssignmentId: null,
    ProductId: 1 + (bits % 400),
    ProductIdext: `VARE-${bits % 400}`,
    ProductName: pick(products, bits >>> 3),
    Quantity: decimal((bits % 20_000) / 1000),
    UnitPrice: decimal((bits % 300_000) / 100),
    DiscountPercent: null,
    Unit: pick(units, bits >>> 4),
    RegTime: storedLocal(row.createdAtMs, context.timeZone),
    ...systemFields(row, context, 41),
  }
}

export function recordedService(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 50)
  const startMs = Math.floor(row.createdAtMs / hourMs) * hourMs
  return {
    AssignmentServiceId: row.id,
    AssignmentServiceIdext: null,
    AssignmentId: null,
    ServiceId: 1 + (bits % 20),
    ServiceName: pick(services, bits >>> 2),
    EmployeeId: 1 + (bits % employeeCount),
    Hours: decimal((1 + (bits & 31)) / 4),
    UnitPrice: decimal(890 + (bits % 30) * 10),
    StartTime: storedLocal(startMs, context.timeZone),
    EndTime: storedLocal(startMs + (1 + (bits & 31)) * 900_000, context.timeZone),
    Comment: null,
    ...systemFields(row, context, 51),
  }
}

export function recordedQualityControl(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 60)
  return {
    AssignmentQualityControlId: row.id,
    AssignmentQualityControlIdext: null,
    AssignmentId: null,
    CheckpointName: pick(checkpoints, bits),
    Result: 1 + (bits & 1),
    Comment: null,
    CheckedByEmployeeId: 1 + (bits % employeeCount),
    CheckedTime: sometimes(bits, 2, () => storedLocal(row.changedAtMs, context.timeZone)),
    ...systemFields(row, context, 61),
  }
}

export function recordedAttachment(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 70)
  const data = Buffer.from(`bilde nummer ${String(bits % 1_000_000_000).padStart(9, '0')}`)
  return {
    AttachmentId: row.id,
    AttachmentIdext: null,
    AttachmentIdtext: null,
    AttachmentType: 1,
    Description: sentence(bits),
    FileName: `IMG_${row.id}.jpg`,
    FileSize: data.length,
    FileData: data.toString('base64'),
    IsOnServer: true,
    RegTime: storedLocal(row.createdAtMs, context.timeZone),
    RegEmployeeId: 1 + (bits % employeeCount),
    RegEmployeeIdext: null,
    UpdateInfoExt: null,
    OwnerId: null,
    OwnerIdext: null,
    OwnerUID: null,
    OwnerType: 1,
    OwnerIdtag: null,
    ShowRecord: true,
    EdokStatus: 0,
    EdokRegTime: null,
    DatabaseNumber: null,
    ParentAttachmentId: null,
    RevisionNumber: 1,
    ScTimeStamp: null,
    Processed: false,
    ...systemFields(row, context, 71),
  }
}

export function recordedTracker(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 80)
  const angle = (bits & 255) / 40 + row.revision / 12
  const isParked = (bits + row.revision) % 9 === 0
  return {
    TrackerObjectId: row.id,
    Name: `Bil ${row.id}`,
    RegistrationNumber: `${(bits & 1) === 0 ? 'EL' : 'BT'} ${10_000 + ((row.id * 173) % 90_000)}`,
    ObjectType: 1 + (row.id % 4),
    DriverName: `${pick(firstNames, bits)} ${pick(lastNames, bits >>> 3)}`,
    Imei: `35${String(row.id).padStart(7, '0')}${String(row.id * 3).padStart(6, '0')}`,
    Latitude: 59 + Math.sin(angle) / 20,
    Longitude: 10 + Math.cos(angle * 2) / 15,
    Speed: isParked ? 0 : 20 + (((bits >>> 8) + row.revision * 7) % 60),
    Heading: isParked ? null : Math.round(angle * 57.2957795) % 360,
    Ignition: !isParked,
    Odometer: row.id * 1000 + row.revision,
    Battery: 12.6,
    LastPositionTime: `${storedUtc(row.changedAtMs)}+00:00`,
    GroupName: pick(groups, bits >>> 5),
    IsActive: true,
  }
}

export function recordedCustomer(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 5)
  return {
    CustomerId: row.id,
    CustomerIdext: `K${10_000 + row.id}`,
    CustomerName: customerName(context.seed, row.id),
    OrganizationNumber: String(900_000_000 + row.id),
    Address1: `Storgata ${1 + (row.id % 90)}`,
    ZipCode: String((row.id * 37) % 9_999).padStart(4, '0'),
    City: pick(towns, bits >>> 4),
    Phone: `+47 ${90_000_000 + (bits % 9_999_999)}`,
    Email: `post${row.id}@kunde.example`,
    CreditLimit: decimal((1 + (bits % 40)) * 10_000),
    IsActive: true,
    ...systemFields(row, context, 91),
  }
}

export function recordedEmployee(context: RecordContext, row: Row): FreshFields {
  const bits = hash(context.seed, row.id, 100)
  return {
    EmployeeId: row.id,
    EmployeeIdext: `E${row.id}`,
    FirstName: pick(firstNames, bits),
    LastName: pick(lastNames, bits >>> 3),
    Email: `e${row.id}@firma.example`,
    MobilePhone: String(40_000_000 + (bits % 9_999_999)),
    DepartmentId: 1 + (row.id % 6),
    HourlyRate: decimal(450 + (bits % 40) * 10),
    IsActive: true,
    Photo: null,
    ...systemFields(row, context, 101),
  }
}

const eventDescriptions = [
  'An assignment is created',
  'An assignment is changed',
  'An assignment is deleted',
  'A note is created',
  'A note is changed',
  'A note is deleted',
]

export const recordedDefinition =
  (events: readonly string[]) =>
  (_context: RecordContext, row: Row): FreshFields => ({
    WebhookDefinitionId: row.id,
    Name: events[row.id - 1] ?? `Event${row.id}`,
    Description: eventDescriptions[row.id - 1] ?? null,
  })

export const recordedSubscription = (context: RecordContext, row: Row): FreshFields => ({
  WebhookSubscriptionId: uuidFrom(context.seed, row.id, 120),
  WebhookDefinitionId: 1,
  Url: `https://receiver.example/${yearOf(row)}/${row.id}`,
  Secret: null,
  Active: true,
  Description: null,
})
