// The fields of an attachment, the only record whose fields the upstream documents: their types and bounds. The form that
// creates one is checked by them, and the columns that hold one have their types.

export type FormKind = 'uint8' | 'int32' | 'int64' | 'boolean' | 'text' | 'base64' | 'uuid' | 'date-time'
/** What the values of a field are said to be. `int64` also stands for integers of no known size, `object` for lists as well. */
export type FieldKind = FormKind | 'int16' | 'uint64' | 'number' | 'date' | 'time' | 'object'
export type Field = { readonly kind: FormKind; readonly maxLength?: number }

/** How many fields without a column are remembered by name for a stream (P10). The values of others are rescued all the same (P5). */
export const mostUnplaced = 600

export const attachmentFields = {
  AttachmentId: { kind: 'int32' },
  AttachmentIdext: { kind: 'text', maxLength: 50 },
  AttachmentIdtext: { kind: 'text', maxLength: 50 },
  AttachmentType: { kind: 'uint8' },
  Description: { kind: 'text', maxLength: 100 },
  FileName: { kind: 'text', maxLength: 250 },
  FileSize: { kind: 'int32' },
  FileData: { kind: 'base64' },
  IsOnServer: { kind: 'boolean' },
  RegTime: { kind: 'date-time' },
  RegEmployeeId: { kind: 'int32' },
  RegEmployeeIdext: { kind: 'text' },
  UpdateInfoExt: { kind: 'uint8' },
  OwnerId: { kind: 'int32' },
  OwnerIdext: { kind: 'text' },
  OwnerUID: { kind: 'uuid' },
  OwnerType: { kind: 'uint8' },
  OwnerIdtag: { kind: 'int32' },
  ShowRecord: { kind: 'boolean' },
  EdokStatus: { kind: 'uint8' },
  EdokRegTime: { kind: 'date-time' },
  DatabaseNumber: { kind: 'int32' },
  ParentAttachmentId: { kind: 'int32' },
  RevisionNumber: { kind: 'int32' },
  ScTimeStamp: { kind: 'date-time' },
  Processed: { kind: 'boolean' },
  UID: { kind: 'uuid' },
  SysRowVersion: { kind: 'int64' },
  RowVersion: { kind: 'int64' },
  SysDeleted: { kind: 'boolean' },
  SysCreatedBy: { kind: 'int32' },
  SysCreatedDateUTC: { kind: 'date-time' },
  SysUpdatedBy: { kind: 'int32' },
  SysUpdatedDateUTC: { kind: 'date-time' },
} as const satisfies Record<string, Field>
