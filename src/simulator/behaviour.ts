// The switches: one for each thing that nobody knows about the upstream. They begin as the recorded service behaves. Tests set them on
// `simulator.behaviour`, also between two requests; the command line has them in kebab-case. What each one does is implemented elsewhere.

import { dialectNames } from './dialects.ts'

/** Which service the stand-in looks like: one that was recorded, or a plain one with made-up fields. */
export const looks = ['recorded', 'plain'] as const
export type Look = (typeof looks)[number]

export type Switch<T> = {
  readonly initial: T
  readonly describe: string
  /** The words to choose from; otherwise what kind of value it is. */
  readonly kind:
    | readonly string[]
    | 'flag'
    | 'count'
    | 'optional-count'
    | 'fraction'
    | 'text'
    | 'time-zone'
    | 'optional-text'
    | 'names'
}

const choice = <const T extends readonly [string, ...string[]]>(
  kind: T,
  describe: string,
): Switch<T[number]> => ({
  initial: kind[0],
  describe,
  kind,
})
const flag = (describe: string): Switch<boolean> => ({ initial: false, describe, kind: 'flag' })
const count = (initial: number, describe: string): Switch<number> => ({ initial, describe, kind: 'count' })
const share = (initial: number, describe: string): Switch<number> => ({ initial, describe, kind: 'fraction' })
const fraction = (describe: string): Switch<number> => share(0, describe)
const text = (initial: string, describe: string): Switch<string> => ({ initial, describe, kind: 'text' })
const optionalText = (describe: string): Switch<string | null> => ({
  initial: null,
  describe,
  kind: 'optional-text',
})
const optionalCount = (initial: number | null, describe: string): Switch<number | null> => ({
  initial,
  describe,
  kind: 'optional-count',
})

export const switches = {
  order: choice(
    ['heap', 'row-version', 'id', 'descending', 'unstable'],
    'order of a list that nothing sorts; heap is where the database keeps the rows, and ties of a sort are then shuffled anew for each page; unstable is another order for each request',
  ),
  inclusive: flag('neworchanged/{v} means versions >= v instead of > v'),
  sorts: choice(['honoured', 'ignored', 'refused'], 'what Sorts does; refused is a 400'),
  sortableFields: {
    initial: null,
    describe: 'the only fields Sorts knows',
    kind: 'names',
  } as Switch<readonly string[] | null>,
  filters: choice(['honoured', 'ignored'], 'what Filters does'),
  unknownNames: choice(
    ['whole-list', 'ignored', 'error'],
    'what a name in Sorts or Filters does that nothing is known by: the list comes unsorted and unpaged, or nothing, or a 500',
  ),
  pageCap: optionalCount(null, 'most records of a page, whatever PageSize says'),
  pageCapArithmetic: choice(
    ['sieve', 'clamped'],
    'with a page cap, sieve skips by the requested size and takes the capped one; clamped uses the capped one for both',
  ),
  ownPageSize: optionalCount(null, 'records of a page, whatever PageSize says; Page counts'),
  defaultPageSize: optionalCount(null, 'page size when PageSize is absent; none: everything'),
  pagingIgnored: flag('Page and PageSize change nothing: every list is whole'),
  escapedSlashes: choice(
    ['kept', 'decoded'],
    'what %2F in a path is: three characters of an external id that nobody has, or a slash',
  ),
  listWrapper: optionalText('lists come as {"NAME": […]} instead of […]'),
  dialect: choice(
    dialectNames,
    'what is around a list, which headers tell of its pages, and what a page behind the last one is; `sieve` is a bare list, and an empty one',
  ),
  casing: choice(['camel', 'pascal'], 'casing of the field names'),
  escapes: choice(['net', 'json'], 'net writes emoji and odd characters as \\uXXXX, as .NET does'),
  timeZone: {
    initial: 'Europe/Oslo',
    describe: 'the time zone of date-times that are not UTC, e.g. Europe/Oslo',
    kind: 'time-zone',
  } as Switch<string>,
  rowVersions: choice(
    ['number', 'string', 'base64'],
    'row versions as JSON numbers, as strings of digits, or as eight bytes in base64',
  ),
  rowVersionField: choice(
    ['legacy', 'both', 'RowVersion', 'SysRowVersion', 'none'],
    'which of RowVersion and SysRowVersion a record has; legacy: both, and RowVersion is an older number, mostly null',
  ),
  rowVersionStep: count(1, 'distance from one row version to the next'),
  ties: count(1, 'how many writes get the same row version when they are made in one go'),
  lateFraction: fraction('share of writes that get their row version at once and become visible later'),
  lateDelayMs: count(5_000, 'how long such a write stays invisible'),
  deletes: choice(
    ['soft', 'hard'],
    'a deleted record stays with SysDeleted and a new row version, or is gone',
  ),
  hideDeleted: flag('records that are marked deleted are in no list, and a read of one is a 404'),
  puts: choice(['replace', 'merge'], 'a PUT empties the fields it does not name, or leaves them as they are'),
  tokenShape: choice(
    ['object', 'json-string', 'plain-text', 'nested'],
    'what the sign-in answers: the token in an object, in an object inside an object, or by itself',
  ),
  tokenField: text('accessToken', 'the name of the token in that object'),
  tokenFormat: choice(['jwt', 'opaque'], 'a JWT tells when it ends, an opaque token does not'),
  tokenLifetimeMs: count(900_000, 'how long a token is good for'),
  tokenClockSkewMs: optionalCount(300_000, 'how much longer it is accepted'),
  tokenExpiryHidden: flag('the sign-in answer does not carry the lifetime in seconds, as expiresIn'),
  tokenShownLifetimeMs: optionalCount(null, 'the lifetime that is shown, when it is not the true one'),
  tokenCache: choice(
    ['until-expiry', 'none', 'stuck'],
    'what the sign-in hands out the second time: the same token while it is valid, a new one, or the same for ever',
  ),
  gzip: flag('answers are compressed for clients that accept gzip'),
  contentLength: flag('answers carry Content-Length, instead of coming in chunks'),
  latencyMs: optionalCount(null, 'time before each answer'),
  extendedOff: flag('the extended read is switched off: 404'),
  openApiOff: flag('the service does not describe itself at /openapi/v1.json'),
  moreLists: flag('customers and employees have lists too, which the description names'),
  lists: choice(
    ['right', 'envelope', 'null', 'no-content', 'empty'],
    'what lists answer: what is there, {"success":false,"data":[]}, null, a 204 without a body, or no record',
  ),
  rights: choice(
    ['all', 'no-lists', 'reads-404', 'reads-403'],
    'lost rights: lists are empty, and single records can still be read, or are a 404 or a 403',
  ),
  hideAfterPaging: optionalCount(
    null,
    'records whose id is a multiple of this are taken out of a page after it was cut',
  ),
  changesOmit: optionalCount(
    null,
    'records whose id is a multiple of this are in lists but not in neworchanged',
  ),
  cutBeforeSort: optionalCount(null, 'only so many records, those with the lowest ids, are sorted and paged'),
  cachedForMs: optionalCount(null, 'an answer to a GET is given again for so long, whatever happened since'),
  replicaLagMs: optionalCount(null, 'reads see the data as it was so long ago'),
  replicaShare: share(1, 'share of the reads that do, when there is such a lag'),
  volatileField: flag(
    'assignments have a DownloadUrl that is another one at each read, with the same row version',
  ),
  fallBacks: fraction(
    'share of changes that are taken back after the delay of late ones: the record has its older version again',
  ),
  silentChanges: fraction('share of changes that give a record no new row version'),
  twins: optionalCount(
    null,
    'beside each record whose id is a multiple of this, lists show another one with the same key',
  ),
}

type Widen<T> = T extends Switch<infer V> ? V : never
/** Mutable on purpose: this is where a test turns the upstream against the program. */
export type Behaviour = { -readonly [Name in keyof typeof switches]: Widen<(typeof switches)[Name]> }
export type SwitchName = keyof Behaviour

export const switchNames = Object.keys(switches) as SwitchName[]
export const isSwitchName = (name: string): name is SwitchName => Object.hasOwn(switches, name)

/** What the plain service does otherwise. */
const plainBehaviour: Partial<Behaviour> = {
  order: 'row-version',
  unknownNames: 'ignored',
  defaultPageSize: 100,
  escapedSlashes: 'decoded',
  casing: 'pascal',
  escapes: 'json',
  timeZone: 'UTC',
  rowVersionField: 'both',
  deletes: 'hard',
  puts: 'merge',
  tokenLifetimeMs: 3_600_000,
  tokenClockSkewMs: null,
  tokenExpiryHidden: true,
  contentLength: true,
}
const profiles: Readonly<Record<Look, Partial<Behaviour>>> = { recorded: {}, plain: plainBehaviour }

export const initialBehaviour = (changes: Partial<Behaviour> = {}, look: Look = 'recorded'): Behaviour => ({
  ...(Object.fromEntries(switchNames.map((name) => [name, switches[name].initial])) as Behaviour),
  ...profiles[look],
  ...changes,
})

// The behaviour switches as they are written on a command line.
const kebabCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export type SwitchOption = {
  readonly name: SwitchName
  readonly option: string
  readonly isFlag: boolean
  /** How its value is named, e.g. `N`, or the words to choose from. */
  readonly value: string
  readonly describe: string
}

export const switchOptions: readonly SwitchOption[] = switchNames.map((name) => {
  const { kind, describe, initial }: Switch<unknown> = switches[name]
  const fallback = kind === 'flag' || initial === null ? '' : ` (${String(initial)})`
  return {
    name,
    option: kebabCase(name),
    isFlag: kind === 'flag',
    value: valueName(kind),
    describe: `${describe}${fallback}`,
  }
})

function valueName(kind: Switch<unknown>['kind']): string {
  if (typeof kind !== 'string') return kind.join('|')
  const names = { flag: '', count: 'N', 'optional-count': 'N|none', fraction: '0…1' }
  return { ...names, text: 'TEXT', 'time-zone': 'ZONE', 'optional-text': 'NAME', names: 'NAME,…' }[kind]
}

/** The value of one switch, or what to write instead. */
export function readSwitch(name: SwitchName, text: string): Partial<Behaviour> | { readonly wrong: string } {
  const { kind }: Switch<unknown> = switches[name]
  const value = typeof kind === 'string' ? readValue(kind, text) : kind.find((word) => word === text)
  if (value === undefined)
    return {
      wrong: `"${text}" should be ${typeof kind === 'string' ? wanted(kind) : `one of ${kind.join(', ')}`}`,
    }
  return { [name]: value }
}

/** What is wrong with a value that is not written as text, e.g. in JSON; null when nothing is. */
export function wrongSwitchValue(name: SwitchName, value: unknown): string | null {
  const { kind }: Switch<unknown> = switches[name]
  if (typeof kind !== 'string')
    return kind.some((word) => word === value) ? null : `It should be one of ${kind.join(', ')}.`
  if (value === null && (kind.startsWith('optional') || kind === 'names')) return null
  const isRight =
    kind === 'flag'
      ? typeof value === 'boolean'
      : kind === 'names'
        ? Array.isArray(value) && value.every((item) => typeof item === 'string')
        : typeof value === (/text$|zone$/.test(kind) ? 'string' : 'number') &&
          readValue(kind, String(value)) !== undefined
  return isRight ? null : `It should be ${kind === 'flag' ? 'true or false' : wanted(kind)}.`
}

function readValue(kind: Extract<Switch<unknown>['kind'], string>, text: string): unknown {
  const isCount = /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 2_147_483_647
  switch (kind) {
    case 'flag':
      return true
    case 'count':
      return isCount ? Number(text) : undefined
    case 'optional-count':
      return text === 'none' ? null : isCount ? Number(text) : undefined
    case 'fraction':
      return text !== '' && Number(text) >= 0 && Number(text) <= 1 ? Number(text) : undefined
    case 'text':
    case 'optional-text':
      return text === '' ? undefined : text
    case 'time-zone':
      return isTimeZone(text) ? text : undefined
    case 'names':
      return text === '' ? undefined : text.split(',').map((name) => name.trim())
  }
}

function isTimeZone(text: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: text }))
  } catch {
    return false
  }
}

function wanted(kind: Extract<Switch<unknown>['kind'], string>): string {
  if (kind === 'time-zone') return 'the name of a time zone, such as Europe/Oslo'
  if (kind === 'fraction') return 'a number from 0 to 1'
  if (kind === 'count') return 'a whole number from 1 to 2147483647'
  if (kind === 'optional-count') return 'a whole number from 1 to 2147483647, or none'
  return kind === 'names' ? 'names with commas between them' : 'a name'
}
