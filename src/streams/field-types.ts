// What the values of a field are, and the fields of an attachment: its columns have these types even where nothing describes them.

/** What the values of a field are said to be. `int64` also stands for integers of no known size, `object` for lists as well. */
export type FieldKind =
  | ('uint8' | 'int16' | 'int32' | 'int64' | 'uint64' | 'number' | 'boolean' | 'text' | 'base64' | 'uuid')
  | ('date-time' | 'date' | 'time' | 'object')

/** How many fields without a column are remembered by name for a stream (P10). The values of others are rescued all the same (P5). */
export const mostUnplaced = 600

export const attachmentFields = {
  AttachmentId: { kind: 'int32' },
  AttachmentIdext: { kind: 'text' },
  AttachmentIdtext: { kind: 'text' },
  AttachmentType: { kind: 'uint8' },
  Description: { kind: 'text' },
  FileName: { kind: 'text' },
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
} as const satisfies Record<string, { readonly kind: FieldKind }>
