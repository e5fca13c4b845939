// What reading related records needs of the store: which assignments are due, and what each of them has.

/** An assignment whose related records are to be read. */
export type Due = {
  readonly assignmentId: string
  /** Tells the row that the mirror held when it was picked: as of that one it will have been read. */
  readonly hash: string
  /** The mirror knows that it was deleted: it has no related records any more. */
  readonly isGone: boolean
}
/** The keys of one group, all of them. */
type Children = { readonly stream: string; readonly keys: readonly string[] }
/** An assignment with its groups; one that its answer did not have is left out, and stays as it is. */
export type Family = { readonly due: Due; readonly children: readonly Children[] }
/** An assignment that could not be read, to be tried again later. */
export type SetAside = { readonly due: Due; readonly problem: string }
/** A related record that an assignment has. */
export type RelatedLink = { readonly assignmentId: string; readonly stream: string; readonly key: string }

export type RelatedBacklog = {
  /**
   * First what was deleted or changed: mostly the last changes, and always some of those that wait longest. Then what was read too long
   * ago. Of what has to be read again, so much only that many changes at once, or everything that got old, do not ask the upstream for
   * everything at once.
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
   * After the records are written, in one transaction: what each assignment has now, that it was read, and what nobody has any
   * more (P7, P8).
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
