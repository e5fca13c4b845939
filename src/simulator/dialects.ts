// How services page their lists, and what they answer to a page behind the last one: one entry for each dialect that is in use. The
// stand-in speaks them (`--dialect`), and so do the random upstreams of the tests.

export type PageOf = {
  readonly page: number
  readonly pageSize: number
  /** Of the whole list. */
  readonly total: number
  readonly pages: number
  /** Records on this page. */
  readonly records: number
  /** The address of another page. */
  readonly urlOf: (page: number) => string
}

export type Dialect = {
  /** Which services answer like this. */
  readonly of: string
  /** An answer of its own; or, as if nothing were odd, an empty list, or a page that came before. */
  readonly pastEnd:
    | { readonly status: number; readonly body?: (asked: PageOf) => unknown }
    | 'empty list'
    | 'last page'
    | 'first page'
  /** The first page is answered like this as well, when nothing is on it. */
  readonly isAlsoFirst?: true
  /** What is around the list; `list` stands for it. */
  readonly envelope?: (list: unknown, page: PageOf) => object
  readonly headers?: (page: PageOf) => Readonly<Record<string, string>>
}

const linkHeader = ({ page, pages, urlOf }: PageOf): Readonly<Record<string, string>> => {
  const links = [
    ...(page < pages ? [`<${urlOf(page + 1)}>; rel="next"`, `<${urlOf(pages)}>; rel="last"`] : []),
    ...(page > 1 ? [`<${urlOf(1)}>; rel="first"`, `<${urlOf(page - 1)}>; rel="prev"`] : []),
  ]
  return links.length === 0 ? {} : { link: links.join(', ') }
}

const nextOf = ({ page, pages, urlOf }: PageOf) => (page < pages ? urlOf(page + 1) : null)
const previousOf = ({ page, urlOf }: PageOf) => (page > 1 ? urlOf(page - 1) : null)

export const dialects = {
  sieve: { of: 'ASP.NET with Sieve, and most services', pastEnd: 'empty list' },
  'dotnet-404': {
    of: 'hand-written paging, Pagerfanta',
    pastEnd: { status: 404, body: ({ page }) => ({ Message: `Page ${page} does not exist.` }) },
  },
  django: {
    of: 'Django REST framework',
    pastEnd: { status: 404, body: () => ({ detail: 'Invalid page.' }) },
    envelope: (results, page) => ({
      count: page.total,
      next: nextOf(page),
      previous: previousOf(page),
      results,
    }),
  },
  wordpress: {
    of: 'WordPress, WooCommerce',
    pastEnd: {
      status: 400,
      body: () => ({
        code: 'rest_post_invalid_page_number',
        message: 'The page number requested is larger than the number of pages available.',
        data: { status: 400 },
      }),
    },
    headers: (page) => ({
      'x-wp-total': String(page.total),
      'x-wp-totalpages': String(page.pages),
      ...linkHeader(page),
    }),
  },
  spring: {
    of: 'Spring Data',
    pastEnd: 'empty list',
    envelope: (content, { page, pageSize, pages, total, records }) => ({
      content,
      totalElements: total,
      totalPages: pages,
      number: page - 1,
      size: pageSize,
      sort: [],
      numberOfElements: records,
      first: page === 1,
      last: page >= pages,
      empty: records === 0,
    }),
  },
  hal: {
    of: 'Spring Data REST, API Platform: an empty page has no list at all',
    pastEnd: 'empty list',
    envelope: (records, { page, pageSize, pages, total, records: count }) => ({
      ...(count > 0 && { _embedded: { records } }),
      _links: { self: { href: '/' } },
      page: { size: pageSize, totalElements: total, totalPages: pages, number: page - 1 },
    }),
  },
  laravel: {
    of: 'Laravel',
    pastEnd: 'empty list',
    envelope: (data, page) => ({
      data,
      links: { first: page.urlOf(1), last: page.urlOf(page.pages), next: nextOf(page) },
      meta: { current_page: page.page, last_page: page.pages, per_page: page.pageSize, total: page.total },
    }),
  },
  odata: {
    of: 'OData, Microsoft Graph, Dynamics',
    pastEnd: 'empty list',
    envelope: (value, page) => ({
      '@odata.context': '$metadata',
      '@odata.count': page.total,
      value,
      ...(page.page < page.pages && { '@odata.nextLink': page.urlOf(page.page + 1) }),
    }),
  },
  github: { of: 'GitHub, Shopify, Okta', pastEnd: 'empty list', headers: linkHeader },
  gitlab: {
    of: 'GitLab, and services with X-Total-Count',
    pastEnd: 'empty list',
    headers: (page) => ({
      'x-total': String(page.total),
      'x-total-pages': String(page.pages),
      'x-next-page': page.page < page.pages ? String(page.page + 1) : '',
    }),
  },
  jira: {
    of: 'Jira, Bitbucket',
    pastEnd: 'empty list',
    envelope: (values, { page, pageSize, pages, total }) => ({
      startAt: (page - 1) * pageSize,
      maxResults: pageSize,
      total,
      isLast: page >= pages,
      values,
    }),
  },
  postgrest: {
    of: 'PostgREST, services that page by ranges',
    pastEnd: { status: 416, body: () => ({ code: 'PGRST103', message: 'Requested range not satisfiable' }) },
    headers: ({ page, pageSize, records, total }) => {
      const from = (page - 1) * pageSize
      return { 'content-range': `${records === 0 ? '*' : `${from}-${from + records - 1}`}/${total}` }
    },
  },
  zoho: {
    of: 'Zoho, and .NET services that return null',
    pastEnd: { status: 204 },
    isAlsoFirst: true,
    envelope: (data, { page, pages, pageSize, records }) => ({
      data,
      info: { page, per_page: pageSize, count: records, more_records: page < pages },
    }),
  },
  'nothing-found': {
    of: 'services to which no record is a 404',
    pastEnd: { status: 404, body: () => ({ message: 'No records found.' }) },
    isAlsoFirst: true,
  },
  gone: {
    of: 'services whose pages expire',
    pastEnd: { status: 410, body: () => ({ error: 'This page does not exist any more.' }) },
  },
  null: {
    of: 'services that write a missing list as null',
    pastEnd: { status: 200, body: () => null },
    isAlsoFirst: true,
  },
  'last-page': {
    of: 'PagedList, Pagy and others that keep the page number in bounds',
    pastEnd: 'last page',
    envelope: (items, { total, page }) => ({ items, total, page }),
  },
  'first-page': { of: 'services that begin anew at a number that they do not have', pastEnd: 'first page' },
} as const satisfies Record<string, Dialect>

export type DialectName = keyof typeof dialects
export const dialectNames = Object.keys(dialects) as [DialectName, ...DialectName[]]
export const dialectNamed = (name: DialectName): Dialect => dialects[name]

const sample: PageOf = { page: 1, pageSize: 1, total: 98_765, pages: 98_765, records: 1, urlOf: () => '/' }

/** Whether its answers tell how many records there are. */
export function tellsTotal(name: DialectName): boolean {
  const { envelope, headers } = dialectNamed(name)
  return JSON.stringify([envelope?.([], sample), headers?.(sample)]).includes('98765')
}
