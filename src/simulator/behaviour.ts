// The switches: what nobody knows about the upstream, one entry each. Tests set them on `simulator.behaviour`, between
// two requests if they like; the command line has the same ones in kebab-case. What each does is elsewhere.

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
const fraction = (describe: string): Switch<number> => ({ initial: 0, describe, kind: 'fraction' })
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
    ['row-version', 'id', 'descending', 'unstable'],
    'order of neworchanged when nothing sorts it; unstable is another one for each request',
  ),
  inclusive: flag('neworchanged/{v} means versions >= v instead of > v'),
  sorts: choice(
    ['honoured', 'ignored', 'refused', 'unpaged-when-unknown'],
    'what Sorts does; refused is a 400; with unpaged-when-unknown a name that is not sortable switches paging off',
  ),
  sortableFields: {
    initial: null,
    describe: 'the only fields Sorts knows',
    kind: 'names',
  } as Switch<readonly string[] | null>,
  filters: choice(['honoured', 'ignored'], 'what Filters does'),
  pageCap: optionalCount(null, 'most records of a page, whatever PageSize says'),
  pageCapArithmetic: choice(
    ['sieve', 'clamped'],
    'with a page cap, sieve skips by the requested size and takes the capped one; clamped uses the capped one for both',
  ),
  ownPageSize: optionalCount(null, 'records of a page, whatever PageSize says; Page counts'),
  defaultPageSize: optionalCount(100, 'page size when PageSize is absent; none: everything'),
  pagingIgnored: flag('Page and PageSize change nothing: every list is whole'),
  listWrapper: optionalText('lists come as {"NAME": […]} instead of […]'),
  casing: choice(['pascal', 'camel'], 'casing of the field names'),
  rowVersions: choice(['number', 'string'], 'row versions as JSON numbers or as strings of digits'),
  rowVersionField: choice(
    ['both', 'RowVersion', 'SysRowVersion', 'none'],
    'which of RowVersion and SysRowVersion a record has',
  ),
  rowVersionStep: count(1, 'distance from one row version to the next'),
  ties: count(1, 'how many writes get the same row version when they are made in one go'),
  lateFraction: fraction('share of writes that get their row version at once and become visible later'),
  lateDelayMs: count(5_000, 'how long such a write stays invisible'),
  deletes: choice(
    ['hard', 'soft'],
    'a deleted record is gone, or stays with SysDeleted and a new row version',
  ),
  tokenShape: choice(
    ['object', 'json-string', 'plain-text', 'nested'],
    'what the sign-in answers: the token in an object, in an object inside an object, or by itself',
  ),
  tokenField: {
    initial: 'accessToken',
    describe: 'the name of the token in that object',
    kind: 'optional-text',
  } as Switch<string>,
  tokenFormat: choice(['jwt', 'opaque'], 'a JWT tells when it ends, an opaque token does not'),
  tokenLifetimeMs: count(3_600_000, 'how long a token is accepted'),
  tokenExpiryShown: flag('the sign-in answer carries the lifetime in seconds, as expiresIn'),
  tokenCache: choice(
    ['until-expiry', 'none', 'stuck'],
    'what the sign-in hands out the second time: the same token while it is valid, a new one, or the same for ever',
  ),
  gzip: flag('answers are compressed for clients that accept gzip'),
}

type Widen<T> = T extends Switch<infer V> ? V : never
/** Mutable on purpose: this is where a test turns the upstream against the program. */
export type Behaviour = { -readonly [Name in keyof typeof switches]: Widen<(typeof switches)[Name]> }
export type SwitchName = keyof Behaviour

export const switchNames = Object.keys(switches) as SwitchName[]

export const initialBehaviour = (changes: Partial<Behaviour> = {}): Behaviour => ({
  ...(Object.fromEntries(switchNames.map((name) => [name, switches[name].initial])) as Behaviour),
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
  return { ...names, 'optional-text': 'NAME', names: 'NAME,…' }[kind]
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
    case 'optional-text':
      return text === '' ? undefined : text
    case 'names':
      return text === '' ? undefined : text.split(',').map((name) => name.trim())
  }
}

function wanted(kind: Extract<Switch<unknown>['kind'], string>): string {
  if (kind === 'fraction') return 'a number from 0 to 1'
  if (kind === 'count') return 'a whole number from 1 to 2147483647'
  if (kind === 'optional-count') return 'a whole number from 1 to 2147483647, or none'
  return kind === 'names' ? 'names with commas between them' : 'a name'
}
