// The record types of the recorded service: each field with its type, its bound and its description. Records are
// served, bodies are checked and the OpenAPI document is written from these tables.

import { defineFields, type Schema } from './fields.ts'

const systemFields = `
UID uuid Unique identifier of the record across systems.
SysRowVersion int64 Database wide version number, changed each time the record is written.
RowVersion int64? Version number used by older integrations.
SysDeleted boolean True when the record is marked as deleted.
SysCreatedBy int32? User that created the record.
SysCreatedDateUTC dateTime? Time of creation (UTC).
SysUpdatedBy int32? User that last changed the record.
SysUpdatedDateUTC dateTime? Time of last change (UTC).`

const assignment: Schema = {
  name: 'TblAssignment',
  describe: 'An assignment (work order).',
  fields: defineFields(`
AssignmentId int32 Internal id of the assignment.
AssignmentIdext string(50)? Id of the assignment in the external system.
AssignmentNumber string(30)? Number shown to users.
AssignmentName string(200)? Short name of the assignment.
Description string? Description, may contain HTML.
InternalNote string? Note that is not shown to the customer.
AssignmentStatusId int32? Status of the assignment.
AssignmentTypeId int32? Type of the assignment.
AssignmentPriority uint8? Priority, 1 is highest.
CustomerId int32? Customer.
CustomerIdext string(50)? External id of the customer.
CustomerName string(100)? Name of the customer.
EmployeeId int32? Responsible employee.
EmployeeIdext string(50)? External id of the responsible employee.
DepartmentId int32? Department.
ProjectId int32? Project.
ProjectIdext string(50)? External id of the project.
ParentAssignmentId int32? Parent assignment.
Address1 string(100)? Address line 1.
Address2 string(100)? Address line 2.
ZipCode string(10)? Zip code.
City string(60)? City.
CountryCode string(2)? Country, ISO 3166.
ContactName string(100)? Contact person.
ContactPhone string(30)? Phone of the contact person.
ContactEmail string(100)? E-mail of the contact person.
Latitude double? Latitude (WGS84).
Longitude double? Longitude (WGS84).
PlannedStart dateTime? Planned start.
PlannedEnd dateTime? Planned end.
ActualStart dateTime? Actual start.
ActualEnd dateTime? Actual end.
DueDate dateTime? Due date.
RegTime dateTime? Time of registration.
EstimatedHours decimal? Estimated hours.
Price decimal? Price.
DiscountPercent decimal? Discount in percent.
FixedPrice boolean? True for fixed price.
IsInvoiced boolean? True when invoiced.
InvoiceNumber int64? Invoice number.
ZoneNumber int16? Zone.
Signature bytes? Signature of the customer (PNG).
SignedBy string(100)? Name of the person who signed.
SignedTimeUTC dateTime? Time of signature (UTC).
Color string(9)? Colour in the planner.
RecurrenceRule string(200)? Recurrence rule.
ExternalSystem string(50)? Name of the external system.
ExternalReference string(100)? Reference in the external system.
CustomField1 string(250)? Custom field 1.
CustomField2 string(250)? Custom field 2.
CustomField3 decimal? Custom field 3.
UpdateInfoExt uint8? Integration flag.
Processed boolean? True when processed by the integration.${systemFields}`),
}

const assignmentNote: Schema = {
  name: 'TblAssignmentNote',
  describe: 'A note on an assignment.',
  fields: defineFields(`
AssignmentNoteId int32 Internal id of the note.
AssignmentNoteIdext string(50)? External id of the note.
AssignmentId int32? Assignment.
AssignmentIdext string(50)? External id of the assignment.
NoteTypeId uint8? Type of note.
Title string(100)? Title.
NoteText string? Text, may contain HTML.
NoteDate dateTime? Date of the note.
EmployeeId int32? Author.
EmployeeIdext string(50)? External id of the author.
IsInternal boolean? Not shown to the customer.
ShowOnReport boolean? Shown on the report.
SortOrder int16? Sort order.
UpdateInfoExt uint8? Integration flag.
Processed boolean? True when processed by the integration.${systemFields}
Employee record?`),
}

const assignmentObject: Schema = {
  name: 'TblAssignmentObject',
  describe: 'An object (equipment, facility) on an assignment.',
  fields: defineFields(`
AssignmentObjectId int32 Internal id.
AssignmentObjectIdext string(50)? External id.
AssignmentId int32? Assignment.
ObjectId int32? Object.
ObjectIdext string(50)? External id of the object.
ObjectName string(100)? Name of the object.
ObjectTypeId int16? Type of object.
SerialNumber string(60)? Serial number.
Quantity decimal? Quantity.
IsMainObject boolean? Main object of the assignment.
InstalledDate dateTime? Date of installation.${systemFields}`),
}

const assignmentProduct: Schema = {
  name: 'TblAssignmentProduct',
  describe: 'A product used on an assignment.',
  fields: defineFields(`
AssignmentProductId int32 Internal id.
AssignmentProductIdext string(50)? External id.
AssignmentId int32? Assignment.
ProductId int32? Product.
ProductIdext string(50)? External id of the product.
ProductName string(200)? Name of the product.
Quantity decimal? Quantity.
UnitPrice decimal? Price per unit.
DiscountPercent decimal? Discount.
Unit string(10)? Unit.
RegTime dateTime? Time of registration.${systemFields}`),
}

const assignmentQualityControl: Schema = {
  name: 'TblAssignmentQualityControl',
  describe: 'A quality control on an assignment.',
  fields: defineFields(`
AssignmentQualityControlId int32 Internal id.
AssignmentQualityControlIdext string(50)? External id.
AssignmentId int32? Assignment.
CheckpointName string(200)? Checkpoint.
Result uint8? Result: 0 not checked, 1 ok, 2 deviation.
Comment string? Comment.
CheckedByEmployeeId int32? Checked by.
CheckedTime dateTime? Time of the check.${systemFields}`),
}

const assignmentService: Schema = {
  name: 'TblAssignmentService',
  describe: 'A service (work) done on an assignment.',
  fields: defineFields(`
AssignmentServiceId int32 Internal id.
AssignmentServiceIdext string(50)? External id.
AssignmentId int32? Assignment.
ServiceId int32? Service.
ServiceName string(200)? Name of the service.
EmployeeId int32? Employee.
Hours decimal? Hours.
UnitPrice decimal? Price per hour.
StartTime dateTime? Start.
EndTime dateTime? End.
Comment string? Comment.${systemFields}`),
}

const attachment: Schema = {
  name: 'TblAttachment',
  describe: 'An attachment.',
  fields: defineFields(`
AttachmentId int32 Internal id.
AttachmentIdext string(50)? External id.
AttachmentIdtext string(50)? Id as text.
AttachmentType uint8? Type.
Description string(100)? Description.
FileName string(250)? File name.
FileSize int32? Size in bytes.
FileData bytes? The file.
IsOnServer boolean? True when the file is on the server.
RegTime dateTime? Time of registration.
RegEmployeeId int32? Registered by.
RegEmployeeIdext string? External id of registered by.
UpdateInfoExt uint8? Integration flag.
OwnerId int32? Owner.
OwnerIdext string? External id of the owner.
OwnerUID uuid? UID of the owner.
OwnerType uint8? Type of the owner.
OwnerIdtag int32? Tag of the owner.
ShowRecord boolean? Show the record.
EdokStatus uint8? Edok status.
EdokRegTime dateTime? Edok time.
DatabaseNumber int32? Database number.
ParentAttachmentId int32? Parent.
RevisionNumber int32? Revision.
ScTimeStamp dateTime? Sc time stamp.
Processed boolean? Processed.${systemFields}`),
}

const customer: Schema = {
  name: 'TblCustomer',
  describe: 'A customer.',
  fields: defineFields(`
CustomerId int32 Internal id of the customer.
CustomerIdext string(50)? External id.
CustomerName string(100)? Name.
OrganizationNumber string(20)? Organization number.
Address1 string(100)? Address.
ZipCode string(10)? Zip code.
City string(60)? City.
Phone string(30)? Phone.
Email string(100)? E-mail.
CreditLimit decimal? Credit limit.
IsActive boolean? Active.${systemFields}`),
}

const employee: Schema = {
  name: 'TblEmployee',
  describe: 'An employee.',
  fields: defineFields(`
EmployeeId int32 Internal id of the employee.
EmployeeIdext string(50)? External id.
FirstName string(60)? First name.
LastName string(60)? Last name.
Email string(100)? E-mail.
MobilePhone string(30)? Mobile phone.
DepartmentId int32? Department.
HourlyRate decimal? Hourly rate.
IsActive boolean? Active.
Photo bytes? Photo.${systemFields}`),
}

const webhookDefinition: Schema = {
  name: 'WebhookDefinition',
  describe: 'A kind of event.',
  fields: defineFields(`
WebhookDefinitionId int32
Name string
Description string?`),
}

const webhookSubscription: Schema = {
  name: 'WebhookSubscription',
  describe: 'A subscription to events.',
  fields: defineFields(`
WebhookSubscriptionId string(50)? Id, set by the service.
WebhookDefinitionId int32 Kind of event.
Url url(500) Receiver.
Secret string(200)? Secret for the signature.
Active boolean True when events are delivered.
Description string(200)? Description.`),
}

const trackerObject: Schema = {
  name: 'TrackerObject',
  describe: 'A vehicle.',
  fields: defineFields(`
TrackerObjectId int32
Name string?
RegistrationNumber string?
ObjectType uint8?
DriverName string?
Imei string?
Latitude double?
Longitude double?
Speed double?
Heading int16?
Ignition boolean?
Odometer int64?
Battery double?
LastPositionTime dateTime?
GroupName string?
IsActive boolean`),
}

export const recordedSchemas = {
  assignment,
  assignment_note: assignmentNote,
  assignment_object: assignmentObject,
  assignment_product: assignmentProduct,
  assignment_quality_control: assignmentQualityControl,
  assignment_service: assignmentService,
  attachment,
  customer,
  employee,
  webhook_definition: webhookDefinition,
  webhook_subscription: webhookSubscription,
  tracker_object: trackerObject,
}
