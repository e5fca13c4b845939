// What reading related records needs of the store: which assignments are due, and what each of them has.

/** An assignment whose related records are to be read. */
export type Due = {
  readonly assignmentId: string
  /** The hash of its row when it was picked. When the row has another one later, the assignment has to be read again. */
  readonly hash: string
  /** The row version of its row then; null: it has none that is known. */
  readonly version: string | null
  /** The mirror knows that it was deleted: it has no related records any more. */
  readonly isGone: boolean
}
/** The keys of one group, all of them. */
type Children = { readonly stream: string; readonly keys: readonly string[] }
/** An assignment with its groups. A group that the answer did not have is left out, and stays as it is. */
export type Family = { readonly due: Due; readonly children: readonly Children[] }
/** An assignment that could not be read, to be tried again later. */
export type SetAside = { readonly due: Due; readonly problem: string }
/** A related record that an assignment has. */
export type RelatedLink = { readonly assignmentId: string; readonly stream: string; readonly key: string }

export type RelatedBacklog = {
  /**
   * First assignments that were deleted, are new or changed: mostly the last changes, and always some of those that wait longest. Then
   * those that were read too long ago. Only a limited number of those that were read before: otherwise a bulk change, or many old ones,
   * would ask the upstream for everything at once.
   */
  due(limit: number): Promise<readonly Due[]>
  /** What these assignments had when they were last read. */
  linked(assignmentIds: readonly string[]): Promise<readonly RelatedLink[]>
  /** Another assignment that was read before; null: there is none. */
  otherRead(besides: readonly string[]): Promise<string | null>
  /** Other assignments that had records of a group when they were last read. */
  othersWith(group: string, besides: readonly string[], limit: number): Promise<readonly string[]>
  /** Before the records are written: notes which ones each assignment has, besides those it had. */
  link(families: readonly Family[]): Promise<void>
  /**
   * After the records are written, in one transaction: notes what each assignment has now and that it was read, and marks records that
   * no assignment has any more as deleted (P7, P8).
   */
  settle(families: readonly Family[], aside: readonly SetAside[]): Promise<void>
  /** Notes how current the groups are, and whether nothing waits any more. */
  noteEnd(hasBacklog: boolean): Promise<{ readonly isDone: boolean }>
}

/** By which field the rows of each group are told apart. */
export type RelatedKeyFields = {
  of(group: string): Promise<string | null>
  keep(group: string, field: string): Promise<void>
}
