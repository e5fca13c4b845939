// What reading needs of an upstream: pages of changes, pages of a list, one record by its key. src/upstream/ implements it,
// the tests model it.

import type { JsonObject } from '../../json/json.ts'
import type { RecordList } from '../../wire/record-page.ts'

/** By the row version. */
export type SortOrder = 'ascending' | 'descending'
export type ChangesRequest = {
  /** The value in the path of `/neworchanged/{rowVersion}`. */
  readonly since: bigint
  readonly page: number
  readonly pageSize: number
  readonly sorts: SortOrder | null
  /** This is one of many requests: where requests are rationed, others go first. */
  readonly lowPriority?: boolean
  /** Only versions below this one; left out or null: all. */
  readonly below?: bigint | null
}
export type ListRequest = {
  readonly page: number
  readonly pageSize: number
  /** In the order of the keys, from behind one; left out: in the upstream's own order. */
  readonly byKey?: { readonly field: string; readonly after: bigint | null; readonly order: SortOrder }
}
export type Answer = {
  readonly records: RecordList
  readonly bytes: number
  /** How many records the upstream says there are in all, also on other pages; left out or null: it does not say. */
  readonly total?: number | null
  /** It is empty because the upstream said twice that there is no such page, and this is what it said, such as `status 404`. */
  readonly noPage?: string
}
/**
 * The upstream does not take the parameters of a request that carried `Sorts`. It answers with status 400 or 422, or it does not know the
 * name, leaves paging out, and answers with everything there is. Any other status is an error.
 */
export type Refusal = { readonly refused: number; readonly why?: string }

/** The same refusal, of a list that was asked for in the order of keys. */
export class ListRefused extends Error {
  override readonly name = 'ListRefused'
  /** As in `saysNoPage`. */
  readonly noPage: string | null

  constructor(message: string, noPage: string | null = null) {
    super(message)
    this.noPage = noPage
  }
}

/** What an error says that may also mean that there is no such page, such as `status 404`; null: it cannot mean that. */
export const saysNoPage = (error: unknown): string | null =>
  error instanceof Error && 'noPage' in error && typeof error.noPage === 'string' ? error.noPage : null

export type Lookup = Found | 'gone' | 'unclear'
type Found = {
  readonly found: JsonObject
  /** How long the answer was, told where it may be long. */
  readonly bytes?: number
  /** A field that the answer does not have only because it was asked for without it, and why. */
  readonly leftOut?: LeftOut
}
export type LeftOut = { readonly field: string; readonly problem: string }

export type Source = {
  /** The same upstream, with the field that `Sorts` names when changes are to be sorted by row version. */
  sortedBy(versionField: string): Source
  changes(request: ChangesRequest, signal: AbortSignal): Promise<Answer | Refusal>
  list(request: ListRequest, signal: AbortSignal): Promise<Answer>
  /** Some lists know no pages: one answer is all there is. */
  readonly listHasPages: boolean
  /** One record by its key. Null when the upstream offers no such look. */
  readonly lookup: ((key: string, signal: AbortSignal) => Promise<Lookup>) | null
}
