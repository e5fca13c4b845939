// Which part of a list a page is. Pure arithmetic, faithful to the oddities of the real one.

import type { Behaviour } from './behaviour.ts'

export type PageRequest = { readonly page: number | null; readonly pageSize: number | null }
export type Span = { readonly from: number; readonly to: number }
export type PagingBehaviour = Pick<
  Behaviour,
  'pageCap' | 'pageCapArithmetic' | 'ownPageSize' | 'defaultPageSize' | 'pagingIgnored'
>

const everything: Span = { from: 0, to: Number.POSITIVE_INFINITY }

export function spanOf({ page, pageSize }: PageRequest, behaviour: PagingBehaviour): Span {
  const { ownPageSize } = behaviour
  const requested = ownPageSize ?? pageSize ?? behaviour.defaultPageSize
  if (behaviour.pagingIgnored || requested === null) return everything
  const taken = ownPageSize ?? Math.min(requested, behaviour.pageCap ?? requested)
  const skippedBy = behaviour.pageCapArithmetic === 'sieve' ? requested : taken
  const from = ((page ?? 1) - 1) * skippedBy
  return { from, to: from + taken }
}
