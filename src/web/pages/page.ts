// What a page is: a path, a title, and what it shows of the desk.

import type { Desk } from '../desk.ts'
import type { Html } from '../html.ts'
import type { Viewer } from '../viewer.ts'

export type PageContext = {
  readonly desk: Desk
  readonly viewer: Viewer
  readonly query: URLSearchParams
  readonly now: Date
}
export type Page = {
  readonly path: string
  readonly title: string
  /** It says itself as of when it is, and follows. */
  readonly isLive?: true
  body(context: PageContext): Promise<Html>
}
