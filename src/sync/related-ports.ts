// What reading related records needs of the mirror besides ports.ts. src/mirror/ implements it.

import type { Busy, Run } from './ports.ts'

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

export type RelatedWork = {
  /** The backlog: first what was deleted or changed, the last change first; then what was read too long ago. */
  due(limit: number): Promise<readonly Due[]>
  /** What these assignments had when they were last read. */
  linked(
    assignmentIds: readonly string[],
  ): Promise<readonly { readonly assignmentId: string; readonly stream: string; readonly key: string }[]>
  /** Other assignments that had records of a group when they were last read. */
  othersWith(group: string, besides: readonly string[], limit: number): Promise<readonly string[]>
  keyFieldOf(group: string): Promise<string | null>
  keepKeyField(group: string, field: string): Promise<void>
  /** Before the records are written: notes which ones each assignment has, besides those it had. */
  link(families: readonly Family[]): Promise<void>
  /**
   * After the records are written, in one transaction: what each assignment has now, that it was read, and what nobody has any
   * more (P7, P8).
   */
  settle(families: readonly Family[], aside: readonly SetAside[]): Promise<void>
  /** There is no backlog. */
  noteComplete(): Promise<void>
}
export type RelatedRun = Run & RelatedWork
export type Relations = { startRelated(): Promise<RelatedRun | Busy> }
